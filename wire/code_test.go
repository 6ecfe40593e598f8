package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCodesAreErrors(t *testing.T) {
	var codes []interface {
		error
		fmt.Stringer
	}
	for b := BusyNoLeader; b <= BusyOverloaded+1; b++ {
		codes = append(codes, b)
	}
	for f := Malformed; f <= TooManyConnections+1; f++ {
		codes = append(codes, f)
	}
	seen := map[string]bool{}
	for _, c := range codes {
		text := c.Error()
		if name, advice, ok := strings.Cut(text, ": "); !ok || name != c.String() || advice == "" || len(text) > MaxText {
			t.Errorf("%q does not read as a name and what to do, or is too long for a reply", text)
		}
		if seen[c.String()] {
			t.Errorf("%q stands for two codes", c.String())
		}
		seen[c.String()] = true
		for i := range len(text) {
			if text[i] < ' ' || text[i] > '~' {
				t.Errorf("%q is not ASCII", text)
			}
		}
		if !errors.Is(fmt.Errorf("acquire %q: %w", "k", c), c) {
			t.Errorf("%v is lost when wrapped", c)
		}
	}
}
