// Package wire encodes and decodes both client protocols on byte slices. It does no I/O and does not allocate.
package wire
