package mcp

import (
	"encoding/json"
	"fmt"
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

type cutPage struct {
	Items []json.RawMessage
	Next  *string `json:"next_page_token"`
	Cut   *struct {
		Shown   int
		LeftOut int `json:"left_out"`
	}
}

// A page can be passed: its token is there where all its items are shown, and not where it would leave out some.
func TestPagesThatAreCutCanBePassed(t *testing.T) {
	t.Parallel()
	const most = 8 << 10
	long := `{"id":"1","payload":"` + strings.Repeat("x", 2*most) + `"}`
	other := `"other":"` + strings.Repeat("y", 2*most) + `",`
	for name, test := range map[string]struct {
		text           string
		shown, leftOut int
	}{
		"one long item":          {`{"items":[` + long + `],"next_page_token":"next"}`, 1, 0},
		"two long items":         {`{"items":[` + long + `,` + long + `],"next_page_token":"next"}`, 1, 1},
		"items of which one fit": {`{"items":[{"id":"1"},` + long + `],"next_page_token":"next"}`, 1, 1},
		"all but the items":      {`{"items":[{"id":"1"},{"id":"2"}],` + other + `"next_page_token":"next"}`, 2, 0},
	} {
		short := fit([]byte(test.text), most)
		var page cutPage
		if err := json.Unmarshal(short, &page); err != nil || len(short) > most || len(page.Items) != test.shown || !strings.Contains(string(page.Items[0]), `"id":"1"`) {
			t.Errorf("%s: %v %d bytes: %.300s", name, err, len(short), short)
			continue
		}
		if passes := page.Next != nil && *page.Next == "next"; passes != (test.leftOut == 0) || (page.Cut == nil) != (test.leftOut == 0) {
			t.Errorf("%s: %.100s … %s", name, short, short[max(0, len(short)-300):])
		}
		if page.Cut != nil && (page.Cut.Shown != test.shown || page.Cut.LeftOut != test.leftOut) {
			t.Errorf("%s: %+v", name, page.Cut)
		}
	}
}

// Members that are many rather than long cannot be shortened: the items, and how to go on, are there without them.
func TestPagesWithManyMembersAreJSON(t *testing.T) {
	t.Parallel()
	const most = 8 << 10
	var members strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&members, `"member%d":%d,`, i, i)
	}
	for _, items := range []string{`{"id":"1"}`, `{"id":"1"},"` + strings.Repeat("x", 2*most) + `"`} {
		short := fit([]byte(`{`+members.String()+`"items":[`+items+`],"next_page_token":"next"}`), most)
		var page cutPage
		if err := json.Unmarshal(short, &page); err != nil || len(short) > most || len(page.Items) != 1 || (page.Cut == nil) == (page.Next == nil) {
			t.Errorf("%v %d bytes: %.300s", err, len(short), short)
		}
	}
}
