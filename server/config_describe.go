package server

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Describe writes the effective configuration, secrets masked, then the warnings that a start at now would log, and the memory that
// the limits allow at worst. It is what server --check prints. The error is the one with which the start would end by its credentials,
// its seat or its state directory, which is only read; ExitCode knows its exit code.
func (c *Config) Describe(w io.Writer, now time.Time) error {
	plan, err := c.checkStart(now)
	effective, defaults := *c, DefaultConfig()
	if effective.Advertise = c.AdvertisedAddr(); c.Advertise == "" {
		defaults.Advertise = effective.Advertise
	}
	if c.Cluster.PeerAdvertise == "" {
		effective.Cluster.PeerAdvertise, defaults.Cluster.PeerAdvertise = plan.peerAddr, plan.peerAddr
	}
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	usual, node := defaults.variables(), len(c.nodeVariables()) > 0
	for i, v := range effective.variables() {
		if v.cluster && !node {
			continue
		}
		text, note := v.value.String(), ""
		if text == usual[i].value.String() {
			note = "(default)"
		}
		if text == "" {
			text = "-"
		}
		fmt.Fprintf(tabs, "%s\t%s\t%s\n", v.name, text, note)
	}
	tabs.Flush()
	for _, line := range slices.Concat(c.Warnings(), c.CertificateWarnings(now), plan.notes) {
		fmt.Fprintf(w, "warning: %s\n", line)
	}
	c.describeMemory(w)
	return err
}
