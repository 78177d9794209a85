package request

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/memory"
)

// Accept says what body a route takes; the zero value takes none.
type Accept struct {
	// Max is in bytes.
	Max int64
	// Optional stands for {} where the body is empty.
	Optional bool
}

// Bodies reads the bodies of requests, within the memory that there is for them. It is
// safe for concurrent use.
type Bodies struct {
	budget   *memory.Budget
	buffers  sync.Pool // of *[]byte
	refusals *prometheus.CounterVec
}

// NewBodies makes Bodies that share a budget, see NewBudget.
func NewBodies(budget *memory.Budget, registry prometheus.Registerer) *Bodies {
	return &Bodies{
		budget:   budget,
		buffers:  sync.Pool{New: func() any { return new([]byte) }},
		refusals: newBodyMetrics(registry, budget),
	}
}

// Body is the body of one request. The zero value is none.
type Body struct {
	from *Bodies
	// buffer is what the text was read into, nil before and after.
	buffer *[]byte
	// held is the memory that is counted for the request.
	held *memory.Hold
}

// Owner is the caller whose share the memory of a body, or of an answer, is counted in.
type Owner struct {
	// Name is a tenant's, or that of a key without one.
	Name string
	// Urgent is for requests that renew or end a lease: some memory is reserved for them.
	Urgent bool
}

// Read reads a request's body whole into b, and gives its text: empty for one of white
// space only. With any framing, it holds at most accept.Max bytes, and no more than the
// budget allows. The text is valid until Recycle.
func (bs *Bodies) Read(b *Body, w http.ResponseWriter, r *http.Request, accept Accept, owner Owner) ([]byte, error) {
	if err := checkMedia(r); err != nil {
		return nil, err
	}
	if r.ContentLength > accept.Max {
		return nil, bodyTooLarge(accept.Max)
	}
	text, err := bs.readText(b, http.MaxBytesReader(w, r.Body, accept.Max), r.ContentLength, owner)
	if err != nil {
		return nil, bs.readProblem(err, accept)
	}
	if len(text) > 0 && len(r.Header["Content-Type"]) == 0 {
		return nil, unsupportedMedia("Send the body with Content-Type: application/json.")
	}
	if len(bytes.Trim(text, " \t\r\n")) > 0 {
		return text, nil
	}
	if accept.Optional {
		return nil, nil
	}
	return nil, problem.New(problem.InvalidJSON, "The body is empty; this request needs a JSON object.")
}

// readProblem says why a body was not read to its end.
func (bs *Bodies) readProblem(err error, accept Accept) error {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return bodyTooLarge(accept.Max)
	case errors.Is(err, memory.ErrShare):
		bs.refusals.WithLabelValues(reasonShare).Inc()
		return problem.New(problem.Overloaded, "Your tenant's requests in flight use all the memory that is allowed for their bodies and answers. Nothing was changed; read the answers, or send less at once.")
	case errors.Is(err, memory.ErrFull):
		bs.refusals.WithLabelValues(reasonFull).Inc()
		return problem.New(problem.Overloaded, "The memory for bodies and answers is used up. Nothing was changed; try again later.")
	default:
		return problem.New(problem.InvalidJSON, "The body is incomplete.")
	}
}

// checkMedia accepts uncompressed JSON only: the size of a compressed body is not
// known before it is decompressed.
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
