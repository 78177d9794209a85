package main

import (
	"bytes"
	"encoding/json"
)

// width is how long a line of a document may be before its value gets lines of its own.
const width = 640

// lines writes JSON for people and diffs: what fits into a line is on one, all else has a line for each member.
func lines(text []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := line(&out, text, 0, 0); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// line writes a value at a depth; before is what its line has already.
func line(out *bytes.Buffer, text json.RawMessage, depth, before int) error {
	if len(text) == 0 || text[0] != '{' && text[0] != '[' || before+len(text) <= width {
		out.Write(text)
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil { // the opening
		return err
	}
	out.WriteByte(text[0])
	for first := true; decoder.More(); first = false {
		if !first {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		indent(out, depth+1)
		used := depth + 1
		if text[0] == '{' {
			key, err := decoder.Token()
			if err != nil {
				return err
			}
			quoted, err := json.Marshal(key)
			if err != nil {
				return err
			}
			out.Write(quoted)
			out.WriteByte(':')
			used += len(quoted) + 1
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if err := line(out, value, depth+1, used); err != nil {
			return err
		}
	}
	out.WriteByte('\n')
	indent(out, depth)
	out.WriteByte(text[len(text)-1])
	return nil
}

// indent begins a line. The members of the document itself are at its edge, as their closing is.
func indent(out *bytes.Buffer, depth int) { out.Write(bytes.Repeat([]byte(" "), max(depth-1, 0))) }
