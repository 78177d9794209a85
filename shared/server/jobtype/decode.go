package jobtype

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
)

const (
	// maxDepth bounds the nesting of a value that is checked: the validator's recursion follows it.
	maxDepth = 100
	// maxNumber and maxExponent bound a number's text: the validator calculates with all of its digits.
	maxNumber   = 400
	maxExponent = 400
	// exactDigits are those that a float64 always holds.
	exactDigits = 15
)

var (
	errTooDeep   = fmt.Errorf("is nested deeper than %d levels, which is the maximum of a value that is checked", maxDepth)
	errHugeValue = fmt.Errorf("has a number with more than %d characters, or an exponent beyond %d", maxNumber, maxExponent)
)

// decode gives the value of a JSON text as the validator takes it. Nothing is null. A number is a float64 where
// it holds all of its digits, else all numbers of the text are encoding/json.Number.
func decode(text []byte) (any, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // an absent value is null
	}
	exact, err := look(text)
	if err != nil {
		return nil, err
	}
	var value any
	if exact {
		err = json.Unmarshal(text, &value) // with an option it takes twice as long
		return value, err
	}
	decoder := stdjson.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("has something after the value")
	}
	return value, nil
}

// look says whether a float64 holds each number of the text, and refuses what must not be decoded.
func look(text []byte) (exact bool, err error) {
	exact = true
	for i, depth := 0, 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			i = endOfString(text, i)
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return false, errTooDeep
			}
		case b == '}' || b == ']':
			depth--
		case b == '-' || '0' <= b && b <= '9':
			end, simple, ok := number(text, i)
			if !ok {
				return false, errHugeValue
			}
			exact, i = exact && simple, end-1
		}
	}
	return exact, nil
}

// endOfString gives the index of the quote that ends the string which begins at i.
func endOfString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// number gives the end of the number that begins at i, whether a float64 surely holds it, and whether it is
// within bounds.
func number(text []byte, i int) (end int, simple, ok bool) {
	begin, digits := i, 0
	for ; i < len(text) && (text[i] == '-' || text[i] == '.' || '0' <= text[i] && text[i] <= '9'); i++ {
		digits++
	}
	if i == len(text) || text[i]|0x20 != 'e' {
		return i, digits <= exactDigits, i-begin <= maxNumber
	}
	exponent := i + 1
	for i++; i < len(text) && (text[i] == '-' || text[i] == '+' || '0' <= text[i] && text[i] <= '9'); i++ {
	}
	n, err := strconv.Atoi(string(text[exponent:i]))
	return i, false, err == nil && -maxExponent <= n && n <= maxExponent && i-begin <= maxNumber
}
