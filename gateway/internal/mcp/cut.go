package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// mostText bounds the text of an answer, in bytes: an agent reads all of it.
const mostText = 64 << 10

// fit gives the API's JSON in at most that many bytes: of a list the first items, with a hint how to get the others; of anything else what
// is short.
func fit(text []byte, most int) []byte {
	text = bytes.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	var answer map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(text, &answer) != nil || json.Unmarshal(answer["items"], &items) != nil || len(items) == 0 {
		return shorten(text, most)
	}
	const forRest = 2 << 10 // of the other members, and the hint
	kept := first(items, most-forRest)
	shown := max(len(kept), 1)
	if len(kept) == 0 {
		kept = [][]byte{shorten(items[0], most-forRest)}
	}
	more := map[string]any{} // how to go on
	if leftOut := len(items) - shown; leftOut > 0 {
		more["cut"] = map[string]any{
			"shown": shown, "left_out": leftOut,
			"hint": fmt.Sprintf("The answer was too long. Ask again with page_size %d and the same page_token, then follow next_page_token; or use a narrower filter.", shown),
		}
	} else if token := answer["next_page_token"]; token != nil { // with others it would leave out what is cut
		more["next_page_token"] = token
	}
	delete(answer, "items")
	delete(answer, "next_page_token")
	members := [][]byte{slices.Concat([]byte(`"items":[`), bytes.Join(kept, []byte(",")), []byte(`]`))}
	how, _ := encode(more) // what was decoded, strings and numbers always encode
	rest, _ := encode(answer)
	for _, object := range [][]byte{how, shorten(rest, forRest-len(how)-len(`{"items":[],,}`))} {
		if object[0] == '{' && len(object) > len("{}") { // else it could not be shortened
			members = append(members, object[1:len(object)-1])
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}"))
}

// encode gives JSON in which nothing is longer than it was written: what HTML would escape stays.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// first gives the items that fit.
func first(items []json.RawMessage, most int) (kept [][]byte) {
	for _, item := range items {
		if most -= len(item) + 1; most < 0 {
			break
		}
		kept = append(kept, item)
	}
	return kept
}

// shorten gives JSON in about that many bytes: the longest parts of it become notes.
func shorten(value json.RawMessage, most int) json.RawMessage {
	if len(value) <= most {
		return value
	}
	note, _ := encode(fmt.Sprintf("(left out: %d bytes)", len(value))) // a string always encodes
	switch value[0] {
	case '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return note
		}
		over := len(value) - most
		for _, name := range slices.SortedFunc(maps.Keys(members), func(a, b string) int { return len(members[b]) - len(members[a]) }) {
			if over <= 0 {
				break
			}
			short := shorten(members[name], max(len(members[name])-over, len(note)))
			over -= len(members[name]) - len(short)
			members[name] = short
		}
		if short, err := encode(members); err == nil && len(short) <= most {
			return short
		}
	case '[':
		var items []json.RawMessage
		if json.Unmarshal(value, &items) != nil {
			return note
		}
		if kept := first(items, most-len(note)-2); len(kept) > 0 {
			return slices.Concat([]byte("["), bytes.Join(append(kept, note), []byte(",")), []byte("]"))
		}
	case '"':
		var text string
		if json.Unmarshal(value, &text) != nil || most < 4*len(note) {
			return note
		}
		for room := most - len(note); room > 0; room /= 2 { // what is escaped is longer
			if short, err := encode(strings.ToValidUTF8(text[:min(room, len(text))], "") + " … " + strings.Trim(string(note), `"`)); err == nil && len(short) <= most {
				return short
			}
		}
	}
	return note
}

// last gives the end of a text.
func last(text []byte, most int) string {
	if len(text) <= most {
		return string(text)
	}
	end := text[len(text)-most:]
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	return fmt.Sprintf("(%d bytes before this are left out)\n%s", len(text)-len(end), end)
}
