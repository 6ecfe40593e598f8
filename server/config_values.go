package server

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is the content of one variable: a field of Config with its text form. Errors say what is allowed.
type value interface {
	parse(text string) error // syntax; the field is left alone on an error
	check() error            // range
	String() string          // what parse reads; secrets masked
}

// addressValue is a host:port. With off set, the word off stands for none.
type addressValue struct {
	field *string
	off   bool
	dial  bool // an address to connect to: with a host and a port
}

func (v addressValue) parse(text string) error {
	if v.off && text == "off" {
		*v.field = ""
		return nil
	}
	if _, _, err := splitAddress(text); err != nil {
		if v.off {
			return fmt.Errorf("%w, or off", err)
		}
		return err
	}
	*v.field = text
	return nil
}

func (v addressValue) check() error {
	if *v.field == "" {
		return nil
	}
	host, port, err := splitAddress(*v.field)
	if err == nil && v.dial && (port == 0 || isWildcard(host)) {
		return fmt.Errorf("an address that others can connect to, with a host and a port, is allowed")
	}
	return err
}

func (v addressValue) String() string {
	if v.off && *v.field == "" {
		return "off"
	}
	return *v.field
}

// splitAddress takes host:port apart. host is empty, an IP address or a name.
func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = parsePort(text)
	}
	if err != nil || !validHost(host) {
		return "", 0, fmt.Errorf("host:port is allowed, such as 127.0.0.1:5225, [::1]:5225 or :5225")
	}
	return host, port, nil
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	return int(port), err
}

func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	inName := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_'
	}
	return len(host) <= 253 && strings.IndexFunc(host, func(r rune) bool { return !inName(r) }) < 0
}

// isLoopback reports whether what listens on host is reached from this machine alone. A name other than localhost may mean
// anything.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isWildcard reports whether host stands for every address of the machine.
func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

// addressesValue is a comma-separated list of addresses to connect to.
type addressesValue struct{ field *[]string }

func (v addressesValue) parse(text string) error {
	*v.field = strings.Split(text, ",")
	return nil
}

func (v addressesValue) check() error {
	for _, address := range *v.field {
		if err := (addressValue{field: &address, dial: true}).check(); err != nil || address == "" {
			return fmt.Errorf("host:port, several separated by commas, is allowed")
		}
	}
	return nil
}

func (v addressesValue) String() string { return strings.Join(*v.field, ",") }

// numberValue is an integer from min to max.
type numberValue[T int | uint64] struct {
	field    *T
	min, max T
}

func (v numberValue[T]) parse(text string) error {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return v.allowed()
	}
	*v.field = T(n)
	return nil
}

func (v numberValue[T]) check() error {
	if *v.field < v.min || *v.field > v.max {
		return v.allowed()
	}
	return nil
}

func (v numberValue[T]) allowed() error {
	return fmt.Errorf("a number from %d to %d is allowed", v.min, v.max)
}

func (v numberValue[T]) String() string { return fmt.Sprint(*v.field) }

// seatValue is a seat of a cluster, or 0 for none.
type seatValue struct{ field *int }

func (v seatValue) parse(text string) error {
	n := numberValue[int]{field: v.field, min: 1, max: 5}
	err := n.parse(text)
	if err == nil {
		err = n.check()
	}
	return err
}

func (v seatValue) check() error { return nil }

func (v seatValue) String() string {
	if *v.field == 0 {
		return ""
	}
	return strconv.Itoa(*v.field)
}

// sizeValue is a number of bytes from min to max.
type sizeValue struct {
	field    *int64
	min, max int64
}

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

func (v sizeValue) parse(text string) error {
	number, unit := text, int64(1)
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"KiB", kibibyte}, {"MiB", mebibyte}, {"GiB", gibibyte}} {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = n, u.bytes
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n > uint64(1<<62/unit) {
		return v.allowed()
	}
	*v.field = int64(n) * unit
	return nil
}

func (v sizeValue) check() error {
	if *v.field < v.min || *v.field > v.max {
		return v.allowed()
	}
	return nil
}

func (v sizeValue) allowed() error {
	return fmt.Errorf("a size from %s to %s is allowed, in bytes or with KiB, MiB or GiB", formatSize(v.min), formatSize(v.max))
}

func (v sizeValue) String() string { return formatSize(*v.field) }

// formatSize writes bytes in the largest unit that divides them.
func formatSize(bytes int64) string {
	switch {
	case bytes != 0 && bytes%gibibyte == 0:
		return fmt.Sprintf("%dGiB", bytes/gibibyte)
	case bytes != 0 && bytes%mebibyte == 0:
		return fmt.Sprintf("%dMiB", bytes/mebibyte)
	case bytes != 0 && bytes%kibibyte == 0:
		return fmt.Sprintf("%dKiB", bytes/kibibyte)
	}
	return strconv.FormatInt(bytes, 10)
}

// durationValue is a duration from min to max.
type durationValue struct {
	field    *time.Duration
	min, max time.Duration
}

func (v durationValue) parse(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return v.allowed()
	}
	*v.field = d
	return nil
}

func (v durationValue) check() error {
	if *v.field < v.min || *v.field > v.max {
		return v.allowed()
	}
	return nil
}

func (v durationValue) allowed() error {
	return fmt.Errorf("a duration from %s to %s is allowed, such as 500ms or 20s", v.min, v.max)
}

func (v durationValue) String() string { return v.field.String() }

// switchValue is one of two words.
type switchValue struct {
	field   *bool
	yes, no string
}

func (v switchValue) parse(text string) error {
	if text != v.yes && text != v.no {
		return fmt.Errorf("%s or %s is allowed", v.yes, v.no)
	}
	*v.field = text == v.yes
	return nil
}

func (v switchValue) check() error { return nil }

func (v switchValue) String() string {
	if *v.field {
		return v.yes
	}
	return v.no
}

// wordValue is one of a few words.
type wordValue struct {
	field *string
	words []string
}

func (v wordValue) parse(text string) error {
	*v.field = text
	return nil
}

func (v wordValue) check() error {
	if !slices.Contains(v.words, *v.field) {
		return fmt.Errorf("one of %s is allowed", strings.Join(v.words, ", "))
	}
	return nil
}

func (v wordValue) String() string { return *v.field }

// pathValue is the name of a file or folder.
type pathValue struct{ field *string }

func (v pathValue) parse(text string) error {
	*v.field = text
	return nil
}

func (v pathValue) check() error {
	if strings.ContainsRune(*v.field, 0) {
		return fmt.Errorf("the path of a file is allowed")
	}
	return nil
}

func (v pathValue) String() string { return *v.field }
