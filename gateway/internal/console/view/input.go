package view

import (
	"regexp"
	"strconv"
)

// Ambiguous are numbers that may be read in two ways: 1.000 is one, or a thousand.
var Ambiguous = regexp.MustCompile(`^-?[1-9][0-9]{0,2}\.[0-9]{3}$`)

// Input writes a number as a form's field takes it, which is never [Ambiguous]: 1.001 is written 1.0010.
func Input(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if Ambiguous.MatchString(text) {
		text += "0"
	}
	return text
}
