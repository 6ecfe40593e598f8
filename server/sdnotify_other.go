//go:build !linux

package server

import "fmt"

// dialNotify refuses: the protocol is systemd's, which is Linux only.
func dialNotify(socket string) (send func(string) error, closeSocket func(), err error) {
	return nil, nil, fmt.Errorf("NOTIFY_SOCKET=%q: there is no service manager to notify on this system", socket)
}
