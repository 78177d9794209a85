package visit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Linked serves a page to anyone who has its address, which is a secret: no session is read, and no other site hears of it. A form
// of it may come from anywhere, as it does nothing but what its address lets everybody do; run reads it, see ReadForm.
func (s *Site) Linked(run PageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Referrer-Policy", "no-referrer")
		v := s.Visit(w, r)
		page, err := run(v)
		v.answer(page, err)
	})
}

// Ask asks the API without a key: something in the path lets it in. body is sent as JSON, nil sends none; the answer is decoded to
// into. The error of a refusal is a problem.
func (v *Visit) Ask(method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(v.Context(), method, "http://gateway"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := v.Transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it is in memory
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode <= 299 {
		return decoder.Decode(into)
	}
	var refused problem.Problem
	if err := decoder.Decode(&refused); err != nil || refused.Code == "" {
		return fmt.Errorf("%s: the API answers %d without a problem: %w", method, response.StatusCode, err)
	}
	return &refused
}
