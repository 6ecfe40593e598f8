package server

import "time"

// notifier tells the service manager (systemd's sd_notify protocol) how the server is. A nil *notifier tells nobody.
// It never blocks: a message that the manager's socket has no room for is dropped.
type notifier struct {
	send     func(message string) error
	close    func()
	watchdog int64 // ns between two signs of life; 0 when none are asked for
	next     int64 // mono ns at which the next one is due
}

// newNotifier connects to socket, the value of NOTIFY_SOCKET: a path, or @name for an abstract socket. An empty socket gives a
// nil notifier. watchdog is WATCHDOG_USEC, 0 when not set: signs of life are then sent at half of it, as sd_watchdog_enabled(3)
// advises.
func newNotifier(socket string, watchdog time.Duration) (*notifier, error) {
	if socket == "" {
		return nil, nil
	}
	send, closeSocket, err := dialNotify(socket)
	if err != nil {
		return nil, err
	}
	return &notifier{send: send, close: closeSocket, watchdog: int64(watchdog / 2)}, nil
}

// ready says that the ports are open.
func (n *notifier) ready() error { return n.tell("READY=1") }

// stopping says that the server drains.
func (n *notifier) stopping() error { return n.tell("STOPPING=1") }

// alive is called by the engine's own loop as often as it likes, with the time (mono ns); it passes a sign of life on when one
// is due.
func (n *notifier) alive(now int64) {
	if n == nil || n.watchdog == 0 || now < n.next {
		return
	}
	n.next = now + n.watchdog
	n.tell("WATCHDOG=1")
}

func (n *notifier) tell(message string) error {
	if n == nil {
		return nil
	}
	return n.send(message)
}

// end closes the socket.
func (n *notifier) end() {
	if n != nil {
		n.close()
	}
}
