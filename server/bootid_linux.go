package server

import (
	"fmt"
	"os"
)

// readBootID names this boot of the machine.
func readBootID() (bootID, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return bootID{}, fmt.Errorf("reading the boot id, by which a restart of the machine is told from one of the server: %w", err)
	}
	return parseBootID(string(text))
}
