package main

import (
	"encoding/json"
	"io"
)

// writeJSON prints v, indented, on lines of its own.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
