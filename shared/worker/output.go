package worker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
	"github.com/forgequeue/forgequeue/shared/worker/internal/backoff"
)

const (
	// outputEvery is for how long output is gathered; a whole chunk is sent at once.
	outputEvery = 250 * time.Millisecond
	// outputUnsent bounds what is kept of one attempt until it is sent, in bytes, and outputPiece is what a chunk counts at least.
	outputUnsent = 256 << 10
	outputPiece  = 64
	// outputRetryLast is the longest wait before output is sent again, unless the server asks for more.
	outputRetryLast = 2 * time.Second
	// lastOutput is how long the output before an outcome may take.
	lastOutput = 3 * time.Second
)

// Output writes to the job's output, as the stream "out". It is shown with the job, as GET /v1/jobs/{id}/output, `forgequeue job logs`
// and the console do. It never fails and never waits for the server: what is written is gathered and sent in the background within
// about a quarter of a second, and the rest before the attempt's outcome. What is not sent in time, as during an outage, is dropped
// beyond 256 KiB, the oldest first, with a note in its place; a failure to send it is only logged. Bytes that are no UTF-8, and NUL,
// are written as U+FFFD. The server keeps 1 MiB of a job's output. It may be used by several goroutines.
func (i *Info) Output() io.Writer { return stream{i.output, api.OutputOut} }

// ErrOutput is Output for the stream "err".
func (i *Info) ErrOutput() io.Writer { return stream{i.output, api.OutputErr} }

// Logf writes a line to the job's output, as the stream "log". (The line of Logger goes to the worker's own log.)
func (i *Info) Logf(format string, args ...any) {
	if line := fmt.Appendf(nil, format, args...); bytes.HasSuffix(line, []byte("\n")) {
		i.output.write(api.OutputLog, line)
	} else {
		i.output.write(api.OutputLog, append(line, '\n'))
	}
}

// stream is one stream of a job's output.
type stream struct {
	of   *output
	name string
}

func (s stream) Write(p []byte) (int, error) {
	s.of.write(s.name, p)
	return len(p), nil
}

// output is what an attempt has said and the server does not have yet. A nil one takes nothing.
type output struct {
	// run sends it, under lease; nil: it is only kept, see rest.
	run   *run
	lease *lease
	// limit bounds what is kept, in bytes.
	limit int

	mu sync.Mutex
	// pieces are what is to be sent, in order, and size their bytes.
	pieces []piece
	size   int
	// dropped are the bytes that were dropped before the pieces.
	dropped int
	// partial are the bytes of a stream at its end that are no whole character.
	partial map[string][]byte
	// seq is the number of the last chunk that was sent.
	seq int64
	// over says that nothing is taken any more.
	over bool
	// idle is closed when what sends has ended, which stop ends; nil while nothing sends.
	idle chan struct{}
	stop context.CancelFunc
	// hurry has what sends gather no longer.
	hurry chan struct{}
}

// piece becomes a chunk.
type piece struct {
	stream string
	text   []byte
}

func (p *piece) size() int { return max(len(p.text), outputPiece) }

func (o *output) write(stream string, text []byte) {
	if o == nil || len(text) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return
	}
	if kept := o.partial[stream]; len(kept) > 0 {
		text = append(kept, text...)
	}
	whole := len(text) - partialRune(text)
	delete(o.partial, stream)
	if whole < len(text) {
		if o.partial == nil {
			o.partial = map[string][]byte{}
		}
		o.partial[stream] = slices.Clone(text[whole:])
	}
	o.keep(stream, text[:whole])
}

// partialRune is how many bytes at the end of a text begin a character that is not whole.
func partialRune(text []byte) int {
	for n := 1; n <= min(len(text), utf8.UTFMax-1); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// keep keeps whole characters to be sent; o.mu is held.
func (o *output) keep(stream string, text []byte) {
	if unknown := []byte("\uFFFD"); !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(bytes.ToValidUTF8(text, unknown), []byte{0}, unknown)
	}
	for len(text) > 0 {
		if len(o.pieces) == 0 || !o.last().takes(stream, text) {
			o.pieces = append(o.pieces, piece{stream: stream})
			o.size += outputPiece
		}
		last := o.last()
		n := min(len(text), api.MaxOutputChunk-len(last.text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		o.size -= last.size()
		last.text = append(last.text, text[:n]...)
		o.size += last.size()
		text = text[n:]
		for o.size > o.limit && len(o.pieces) > 1 {
			o.size -= o.pieces[0].size()
			o.dropped += len(o.pieces[0].text)
			o.pieces[0] = piece{}
			o.pieces = o.pieces[1:]
		}
	}
	if o.run == nil || len(o.pieces) == 0 {
		return
	}
	if o.idle == nil {
		ctx, stop := context.WithCancel(o.run.base)
		o.idle, o.stop, o.hurry = make(chan struct{}), stop, make(chan struct{}, 1)
		go o.send(ctx, o.idle)
	}
	if o.size >= api.MaxOutputChunk {
		o.now()
	}
}

// takes says whether the text, or its first character, belongs to the piece.
func (p *piece) takes(stream string, text []byte) bool {
	_, first := utf8.DecodeRune(text)
	return p.stream == stream && len(p.text)+first <= api.MaxOutputChunk
}

func (o *output) last() *piece { return &o.pieces[len(o.pieces)-1] }

// now ends the gathering; o.mu is held.
func (o *output) now() {
	select {
	case o.hurry <- struct{}{}:
	default: // it ends already
	}
}

// send sends what there is until nothing is left. One request is under way at a time.
func (o *output) send(ctx context.Context, idle chan<- struct{}) {
	defer close(idle)
	for {
		select {
		case <-o.hurry:
		case <-time.After(outputEvery):
		case <-ctx.Done():
		}
		chunks := o.take()
		if len(chunks) == 0 {
			return
		}
		if !o.deliver(ctx, chunks) {
			o.mu.Lock()
			o.over, o.pieces, o.size = true, nil, 0
			o.mu.Unlock()
		}
	}
}

// take numbers what is sent next; none says that there is nothing, and what sends ends.
func (o *output) take() []api.OutputChunk {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pieces) == 0 {
		o.stop()
		o.idle = nil
		return nil
	}
	var chunks []api.OutputChunk
	add := func(stream, text string) {
		o.seq++
		chunks = append(chunks, api.OutputChunk{Seq: o.seq, Stream: stream, Text: text})
	}
	if o.dropped > 0 {
		add(api.OutputLog, fmt.Sprintf("\n[... %d bytes of output could not be sent in time ...]\n", o.dropped))
		o.dropped = 0
	}
	n := min(len(o.pieces), api.MaxOutputChunks-len(chunks))
	for i := range o.pieces[:n] {
		o.size -= o.pieces[i].size()
		add(o.pieces[i].stream, string(o.pieces[i].text))
	}
	o.pieces = slices.Clone(o.pieces[n:])
	if o.over || o.size >= api.MaxOutputChunk {
		o.now()
	}
	return chunks
}

// deliver sends chunks until the server has them. It is false where it never will.
func (o *output) deliver(ctx context.Context, chunks []api.OutputChunk) bool {
	worker, job := o.run.worker, &o.lease.job
	for failures := 0; ; failures++ {
		_, err := worker.client.AppendOutput(ctx, job.ID, api.OutputRequest{LeaseToken: job.LeaseToken, Chunks: chunks}, client.WithOneTry())
		if err == nil {
			return true
		}
		status := client.Status(err)
		final := status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
		switch {
		case hasCode(err, problem.LeaseLost):
			return false // the attempt's line says so
		case final, ctx.Err() != nil:
			worker.logger.Warn("a job's output could not be sent; the rest of it is dropped", "job_id", job.ID, "error", err.Error())
			return false
		case failures == 0:
			worker.logger.Warn("sending a job's output failed", "job_id", job.ID, "error", err.Error())
		}
		if wait.For(ctx, backoff.Asked(failures, outputRetryLast, err)) != nil {
			return false
		}
	}
}

// end sends what there is for at most d, and takes no more.
func (o *output) end(d time.Duration) {
	if o == nil {
		return
	}
	o.mu.Lock()
	for _, stream := range []string{api.OutputOut, api.OutputErr, api.OutputLog} {
		if text := o.partial[stream]; len(text) > 0 && !o.over {
			o.keep(stream, text)
		}
	}
	o.over, o.partial = true, nil
	idle, stop := o.idle, o.stop
	if idle != nil {
		o.now()
	}
	o.mu.Unlock()
	if idle == nil {
		return
	}
	if !endsWithin(idle, d) {
		stop()
		<-idle
	}
}

// rest is all that was written, where nothing sends it.
func (o *output) rest() []api.OutputChunk {
	var chunks []api.OutputChunk
	for _, p := range o.pieces {
		chunks = append(chunks, api.OutputChunk{Seq: int64(len(chunks)) + 1, Stream: p.stream, Text: string(p.text)})
	}
	return chunks
}

// outputLast sends the rest of the output of a job whose attempt ends; that of a lost lease is dropped.
func (r *run) outputLast(l *lease, d decision) {
	most := lastOutput
	if d.kind == "" {
		most = 0
	}
	l.output.end(most)
}
