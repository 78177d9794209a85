package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Lease is what completing a claimed job needs.
type Lease struct {
	id, token string
	// Intended is the intended start of its submit, on this process's clock; zero if its payload has none.
	Intended time.Time
}

var errShape = errors.New("a claim's answer is not as expected")

// findLeases appends the jobs of a claim's answer to found, without decoding it: encoding/json would cost
// more CPU time for each job than a real worker spends. The payloads are the benchmark's own, so they
// contain none of the marks that are searched for.
func findLeases(body []byte, begun time.Time, found []Lease) ([]Lease, error) {
	const idMark, tokenMark, atMark = `{"id":"`, `"lease_token":"`, `"payload":{"at":"` //nolint:gosec // no credential: what stands before one
	for {
		i := bytes.Index(body, []byte(idMark))
		if i < 0 {
			return found, nil
		}
		body = body[i+len(idMark):]
		id, rest, ok := bytes.Cut(body, []byte{'"'})
		if !ok {
			return found, errShape
		}
		token := bytes.Index(rest, []byte(tokenMark))
		if token < 0 {
			return found, errShape
		}
		one := Lease{id: string(id)}
		if at := bytes.Index(rest[:token], []byte(atMark)); at >= 0 && at+len(atMark)+atDigits <= token {
			since, err := strconv.ParseInt(string(rest[at+len(atMark):at+len(atMark)+atDigits]), 10, 64)
			if err != nil {
				return found, errShape
			}
			one.Intended = begun.Add(time.Duration(since))
		}
		text, rest, ok := bytes.Cut(rest[token+len(tokenMark):], []byte{'"'})
		if !ok {
			return found, errShape
		}
		one.token = string(text)
		found, body = append(found, one), rest
	}
}

// countSubmitted is the number of jobs that an answer to submits reports as accepted.
func countSubmitted(answer reply, batch bool) int {
	switch {
	case batch && answer.status == 200:
		return sumAfter(answer.body, []byte(`"accepted":`))
	case answer.status == 202: // a single job, at the gateway
		return 1
	}
	return bytes.Count(answer.body, []byte(`{"status":202,`)) // single jobs, at core
}

func countCompleted(body []byte) int { return bytes.Count(body, []byte(`,"status":200,"outcome":{`)) }

// sumAfter is the sum of the numbers that follow a mark.
func sumAfter(body, mark []byte) int {
	sum := 0
	for {
		i := bytes.Index(body, mark)
		if i < 0 {
			return sum
		}
		body = body[i+len(mark):]
		n := 0
		for n < len(body) && body[n] >= '0' && body[n] <= '9' {
			n++
		}
		value, _ := strconv.Atoi(string(body[:n]))
		sum += value
	}
}

// problems counts the problems in an answer by their codes, at any depth, and returns the detail of one.
func problems(body []byte) (byCode map[string]int, example string) {
	byCode = map[string]int{}
	var value any
	if json.Unmarshal(body, &value) != nil {
		return byCode, ""
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				walk(one)
			}
		case map[string]any:
			if code, ok := value["code"].(string); ok {
				byCode[code]++
				if detail, ok := value["detail"].(string); ok && example == "" {
					example = detail
				}
				return
			}
			for _, one := range value {
				walk(one)
			}
		}
	}
	walk(value)
	return byCode, example
}
