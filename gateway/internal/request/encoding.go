package request

import (
	"strconv"
	"strings"
)

// TakesGzip reads Accept-Encoding (RFC 9110, section 12.5.3): gzip, or any coding, with a weight above 0. gzip's own weight
// counts before that of *.
func TakesGzip(headers []string) bool {
	takes := false
	for part := range splitList(strings.Join(headers, ","), ',') {
		coding, parameters, _ := strings.Cut(part, ";")
		switch coding = strings.ToLower(trimSpace(coding)); coding {
		case "gzip", "x-gzip":
			return weight(parameters) > 0
		case "*":
			takes = weight(parameters) > 0
		}
	}
	return takes
}

// weight is a quality value; 1 where there is none.
func weight(parameters string) float64 {
	name, value, _ := strings.Cut(parameters, "=")
	if !strings.EqualFold(trimSpace(name), "q") {
		return 1
	}
	q, err := strconv.ParseFloat(trimSpace(value), 64)
	if err != nil {
		return 0
	}
	return q
}
