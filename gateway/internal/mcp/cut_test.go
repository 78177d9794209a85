package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is cut stays as it was written: a letter that HTML would escape has one byte.
func TestWhatIsCutIsNotEscaped(t *testing.T) {
	t.Parallel()
	text := []byte(`{"id":"1","long":"` + strings.Repeat("<", 20_000) + `","longer":"` + strings.Repeat("&", 21_000) + `","list":["<",` + strings.Repeat("1,", 1000) + `2]}`)
	const most = 25_000
	for _, short := range [][]byte{fit(text, most), fit([]byte(`{"items":[`+string(text)+`]}`), most)} {
		if !json.Valid(short) || len(short) > most || strings.Contains(string(short), `\u00`) || !strings.Contains(string(short), `"id":"1"`) || !strings.Contains(string(short), strings.Repeat("<", 1000)) {
			t.Errorf("%d bytes: %.300s", len(short), short)
		}
	}
}
