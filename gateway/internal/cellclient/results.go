package cellclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// readResults reads core's answer to a call. Values stay the text that they are: of the others of an envelope nobody needs
// more than where they end, and each caller decodes its own. They are parts of the answer, not copies.
func readResults(answer []byte) ([]hop.Result[json.RawMessage], error) {
	items, is := bytes.CutPrefix(answer, []byte(`{"results":[`))
	if items, is = cutSuffix(items, is, "]}"); !is {
		return readAny(answer)
	}
	results := make([]hop.Result[json.RawMessage], 0, 16)
	for len(items) > 0 {
		end := objectEnd(items)
		if end < 0 || (end < len(items) && items[end] != ',') || end == len(items)-1 {
			return readAny(answer) // it is no JSON, or not core's form of it
		}
		result, err := readResult(items[:end:end])
		if err != nil {
			return nil, err
		}
		results = append(results, result)
		items = items[min(end+1, len(items)):]
	}
	return results, nil
}

func cutSuffix(text []byte, is bool, suffix string) ([]byte, bool) {
	if !is {
		return nil, false
	}
	return bytes.CutSuffix(text, []byte(suffix))
}

// readAny reads an answer in any form.
func readAny(answer []byte) ([]hop.Result[json.RawMessage], error) {
	var all hop.Results[json.RawMessage]
	err := Read(answer, &all)
	return all.Results, err
}

// readResult reads one result: {"status":202,"value":…}, as most are, without a decoder.
func readResult(text []byte) (result hop.Result[json.RawMessage], err error) {
	rest, is := bytes.CutPrefix(text, []byte(`{"status":`))
	digits := bytes.IndexByte(rest, ',')
	if is && digits > 0 {
		status, numberErr := strconv.Atoi(string(rest[:digits]))
		rest = rest[digits:]
		replayed := bytes.HasPrefix(rest, []byte(`,"replayed":true,`))
		if replayed {
			rest = rest[len(`,"replayed":true`):]
		}
		if value, is := bytes.CutPrefix(rest, []byte(`,"value":`)); is && numberErr == nil {
			value = value[: len(value)-1 : len(value)-1]
			// The value is all of the rest where it is one object.
			if objectEnd(value) == len(value) {
				raw := json.RawMessage(value)
				return hop.Result[json.RawMessage]{Status: status, Replayed: replayed, Value: &raw}, nil
			}
		}
	}
	if err := Read(text, &result); err != nil {
		return result, fmt.Errorf("a result: %w", err)
	}
	return result, nil
}

// objectEnd gives where the JSON object that a text begins with has ended; -1 where it has not.
func objectEnd(text []byte) int {
	if len(text) == 0 || text[0] != '{' {
		return -1
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = stringEnd(text, i+1); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// stringEnd gives the place of the quote that ends a string, whose text begins at from; -1 where there is none.
func stringEnd(text []byte, from int) int {
	for {
		quote := bytes.IndexByte(text[from:], '"')
		if quote < 0 {
			return -1
		}
		quote += from
		escapes := 0
		for quote-escapes > from && text[quote-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return quote
		}
		from = quote + 1
	}
}
