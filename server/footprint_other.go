//go:build !linux

package server

// footprint is nothing on these systems.
type footprint struct{}

func readFootprint() footprint { return footprint{} }

func (footprint) drop() {}
