package server

import (
	"context"
	"time"
)

// footprintInterval is how often pages of the executable that are not in use are given back.
const footprintInterval = 2 * time.Second

// keepFootprintSmall gives them back until ctx is over.
func keepFootprintSmall(ctx context.Context) {
	ticker := time.NewTicker(footprintInterval)
	defer ticker.Stop()
	for pages := readFootprint(); ; {
		pages.drop()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
