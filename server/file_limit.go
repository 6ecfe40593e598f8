package server

import "fmt"

// reservedFiles is how many descriptors are kept from client connections: enough for all connections of the admin and peer ports,
// which could otherwise leave the process unable to write its state file, and 64 for everything else.
const reservedFiles = adminConnections + peerPlacesInAll + mostRequestConns + mostStrangers + 64

// connectionPlaces returns how many client connections a limit of files open files leaves room for, at most wanted. It is an error
// if there is room for none: a server that would have to refuse everybody must not start.
func connectionPlaces(wanted, files int) (int, error) {
	places := min(wanted, files-reservedFiles)
	if places < 1 {
		return 0, fmt.Errorf("counting places for connections: the limit of open files is %d, of which the server itself needs %d: raise it (LimitNOFILE, ulimit -n)",
			files, reservedFiles)
	}
	return places, nil
}
