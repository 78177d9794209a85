package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Streams of a job's output.
const (
	OutputOut = "out"
	OutputErr = "err"
	OutputLog = "log"
)

const (
	// MaxOutput bounds what is kept of a job's output, in bytes.
	MaxOutput = 1 << 20
	// MaxOutputChunk bounds a chunk of it, in bytes.
	MaxOutputChunk = 16 << 10
	// MaxOutputChunks bounds the chunks of a request.
	MaxOutputChunks = 100
	// maxOutputSeq bounds the numbers of chunks.
	maxOutputSeq = 1_000_000_000
)

// OutputRequest is what the holder of a lease says.
type OutputRequest struct {
	LeaseToken string `json:"lease_token"`
	// Chunks are at most 100, in order. One whose number was there is left out.
	Chunks []OutputChunk `json:"chunks"`
}

// OutputChunk is a piece of a job's output.
type OutputChunk struct {
	// Seq is its number in the attempt, from 1 on.
	Seq int64 `json:"seq"`
	// Stream is out, err or log.
	Stream string `json:"stream"`
	// Text has at most 16 KiB.
	Text string `json:"text"`
}

// OutputAccepted says which number the next chunk may have.
type OutputAccepted struct {
	NextSeq int64 `json:"next_seq"`
}

// Output is a piece of a job's output, as it is kept.
type Output struct {
	// ID is EPOCH.SEQ: the attempt by its epoch, and the number of the chunk.
	ID     string `json:"id"`
	Stream string `json:"stream"`
	Text   string `json:"text" sensitive:"all"`
	At     Time   `json:"at" swaggertype:"string" format:"date-time"`
	// Gap says that output before this chunk is no longer kept.
	Gap bool `json:"gap"`
}

// OutputPage is a part of a job's output, the oldest first.
type OutputPage struct {
	Items []Output `json:"items"`
	// Truncated says that output before or within these is no longer kept.
	Truncated bool `json:"truncated"`
	// More says that there was more after the last of these.
	More bool `json:"more"`
}

// OutputPlace is the place of a chunk in a job's output; zero is its begin.
type OutputPlace struct{ Epoch, Seq int64 }

func (p OutputPlace) String() string { return fmt.Sprintf("%d.%d", p.Epoch, p.Seq) }

// ParseOutputPlace reads EPOCH.SEQ.
func ParseOutputPlace(text string) (place OutputPlace, ok bool) {
	epoch, seq, _ := strings.Cut(text, ".")
	var err error
	if place.Epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil || place.Epoch < 0 {
		return OutputPlace{}, false
	}
	if place.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil || place.Seq < 0 {
		return OutputPlace{}, false
	}
	return place, true
}

// Validate tells which fields cannot be accepted.
func (o *OutputRequest) Validate() []problem.FieldError { return validate(o, "", time.Time{}) }

func (o *OutputRequest) rules(r refusals) {
	r.text("lease_token", &o.LeaseToken, &givenText)
	r.check(!strings.ContainsRune(o.LeaseToken, 0), "lease_token", "must not contain NUL characters")
	r.items("chunks", len(o.Chunks), 1, MaxOutputChunks, "")
	last := int64(0)
	for i := range o.Chunks {
		chunk := &o.Chunks[i]
		at := r.in(fmt.Sprintf("chunks[%d].", i))
		chunk.rules(at)
		at.check(chunk.Seq > last || chunk.Seq < 1, "seq", "must be above that of the chunk before")
		last = max(last, chunk.Seq)
	}
}

func (c *OutputChunk) rules(r refusals) {
	whole(r, "seq", &c.Seq, 1, maxOutputSeq)
	r.words("stream", &c.Stream, streamWords)
	r.text("text", &c.Text, &outputText)
}
