package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// keptBuffer bounds what goes back to the pool, so that one batch of 8 MiB does
// not stay in memory for ever.
const keptBuffer = 1 << 20

func (s *Server) buffer() *bytes.Buffer {
	return s.buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
}

// release takes a buffer back. Nothing decoded may point into it.
func (s *Server) release(buffer *bytes.Buffer) {
	if buffer.Cap() > keptBuffer {
		return
	}
	buffer.Reset()
	s.buffers.Put(buffer)
}

// readBody reads the body whole. However it is framed, no more than rule.max
// bytes of it are held. The buffer stays empty for a body of white space only.
func readBody(buffer *bytes.Buffer, w http.ResponseWriter, r *http.Request, rule bodyRule) error {
	if err := checkMedia(r); err != nil {
		return err
	}
	if r.ContentLength > rule.max {
		return bodyTooLarge(rule.max)
	}
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead) // MinRead: or ReadFrom grows it once more to see the end
	}
	if _, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, rule.max)); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return bodyTooLarge(rule.max)
		}
		return problem.New(problem.InvalidJSON, "The body did not arrive whole.")
	}
	if buffer.Len() > 0 && len(r.Header["Content-Type"]) == 0 {
		return unsupportedMedia("Send the body with Content-Type: application/json.")
	}
	if len(bytes.Trim(buffer.Bytes(), " \t\r\n")) > 0 {
		return nil
	}
	buffer.Reset()
	if rule.optional {
		return nil
	}
	return problem.New(problem.InvalidJSON, "The body is empty; this request needs a JSON object.")
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
