package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/shared/memory"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// readBody reads the body whole, empty for one of white space only. However it is
// framed, no more than rule.max bytes of it are held, and no more than there is
// memory for. The text is valid until release.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, c *call, rule bodyRule) ([]byte, error) {
	if err := checkMedia(r); err != nil {
		return nil, err
	}
	if r.ContentLength > rule.max {
		return nil, bodyTooLarge(rule.max)
	}
	text, err := s.readText(c, http.MaxBytesReader(w, r.Body, rule.max), r.ContentLength)
	if err != nil {
		return nil, s.unread(err, rule)
	}
	if len(text) > 0 && len(r.Header["Content-Type"]) == 0 {
		return nil, unsupportedMedia("Send the body with Content-Type: application/json.")
	}
	if len(bytes.Trim(text, " \t\r\n")) > 0 {
		return text, nil
	}
	if rule.optional {
		return nil, nil
	}
	return nil, problem.New(problem.InvalidJSON, "The body is empty; this request needs a JSON object.")
}

// unread says why a body was not read to its end.
func (s *Server) unread(err error, rule bodyRule) error {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return bodyTooLarge(rule.max)
	case errors.Is(err, memory.ErrShare):
		s.bodyRefusals.WithLabelValues(reasonShare).Inc()
		return problem.New(problem.Overloaded, "The requests that your tenant has under way hold as much memory as they may; nothing was changed. Wait for their answers, or send less at once.")
	case errors.Is(err, memory.ErrFull):
		s.bodyRefusals.WithLabelValues(reasonFull).Inc()
		return problem.New(problem.Overloaded, "The requests that are under way hold as much memory as they may; nothing was changed. Try again later.")
	default:
		return problem.New(problem.InvalidJSON, "The body did not arrive whole.")
	}
}

// checkMedia wants JSON as it is: a compressed body would have to be unpacked to
// learn its size, so it is not taken at all.
func checkMedia(r *http.Request) error {
	for _, encoding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return unsupportedMedia("Send the body uncompressed, without Content-Encoding.")
		}
	}
	types := r.Header["Content-Type"]
	if len(types) == 0 {
		return nil // fine if the body is empty
	}
	media, _, err := mime.ParseMediaType(types[0])
	if len(types) > 1 || err != nil || media != "application/json" {
		return unsupportedMedia("Send the body as Content-Type: application/json.")
	}
	return nil
}

func unsupportedMedia(detail string) error {
	return problem.New(problem.UnsupportedMediaType, detail)
}

func bodyTooLarge(limit int64) error {
	return problem.New(problem.PayloadTooLarge, fmt.Sprintf("The body may have at most %d bytes.", limit))
}
