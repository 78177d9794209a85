package request

import (
	"strconv"
	"strings"
)

// appendDecimal appends the canonical form of a JSON number: its digits without
// zeros at either end, then "e" and the exponent of ten they are multiplied by.
// 1, 1.0, 10e-1 and 1e0 all become 1e0; -0 becomes 0.
//
// Everything is done on the text. No value is ever computed, so 1e1000000000
// costs ten characters, and 2^53+1 stays itself.
func appendDecimal(dst []byte, number string) []byte {
	number, negative := strings.CutPrefix(number, "-")
	mantissa, exponent := number, "0"
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return append(dst, '0')
	}
	kept := strings.TrimRight(digits, "0")
	shift := int64(len(digits)-len(kept)) - int64(len(fraction))
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, kept...)
	dst = append(dst, 'e')
	return append(dst, shiftExponent(exponent, shift)...)
}

// exactDigits is how many digits an exponent may have to be added as an int64.
const exactDigits = 18

// shiftExponent adds shift, which is at most the length of a body, to an
// exponent as written: "+5", "-07", or one with a million digits.
func shiftExponent(exponent string, shift int64) string {
	digits, negative := strings.CutPrefix(exponent, "-")
	digits = strings.TrimLeft(strings.TrimPrefix(digits, "+"), "0")
	if len(digits) <= exactDigits {
		value, _ := strconv.ParseInt("0"+digits, 10, 64) // at most 18 digits: it fits
		if negative {
			value = -value
		}
		return strconv.FormatInt(value+shift, 10)
	}
	// Far larger than shift: the sign stays, and the sum is done on the digits.
	if negative {
		return "-" + addToDigits(digits, -shift)
	}
	return addToDigits(digits, shift)
}

// addToDigits adds to a positive decimal integer that is larger than |delta|. It
// walks from the last digit and stops where nothing is carried on.
func addToDigits(digits string, delta int64) string {
	sum := []byte(digits)
	for i := len(sum) - 1; i >= 0 && delta != 0; i-- {
		delta += int64(sum[i] - '0')
		digit := ((delta % 10) + 10) % 10
		sum[i] = '0' + byte(digit)
		delta = (delta - digit) / 10
	}
	text := strings.TrimLeft(string(sum), "0")
	if delta > 0 { // 999 + 1
		text = strconv.FormatInt(delta, 10) + string(sum)
	}
	return text
}
