package jobs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/plaintext"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// fileFlags are the flags of submit that may stand beside --file.
var fileFlags = []string{"file", "idempotency-key", "batch", "output", "url", "profile", "wait-timeout"}

func checkFileFlags(command *cobra.Command, args []string, batch int) error {
	if len(args) > 0 {
		return cli.Usage("--file brings whole jobs, so no type can be given; each line has its own")
	}
	var other string
	command.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(fileFlags, flag.Name) {
			other = flag.Name
		}
	})
	if other != "" {
		return cli.Usage("--%s cannot be combined with --file: each line of the file is a whole job", other)
	}
	if batch < 1 || batch > api.MaxBatchJobs {
		return cli.Usage("--batch %d: must be between 1 and %d", batch, api.MaxBatchJobs)
	}
	return nil
}

// fileJob is a job of a file.
type fileJob struct {
	line    int
	request api.SubmitRequest
}

// lineResult is what became of a line.
type lineResult struct {
	Line    int              `json:"line"`
	ID      *string          `json:"id"`
	Status  int              `json:"status"`
	Problem *problem.Problem `json:"problem"`
}

// fileSubmit submits the jobs of a file in batches, one after the other. The nth batch has the Idempotency-Key KEY/n,
// and what a full cap refused of it is sent again as KEY/n/2, KEY/n/3 and so on: the same file with the same key goes
// through the same requests, so that those that were answered before are answered alike and store nothing.
type fileSubmit struct {
	*cli.Session
	name, key         string
	size              int
	bar               *progressbar.ProgressBar
	accepted, refused int
	replayed          int
	all               []lineResult
	// saidWaiting: it was said that jobs wait.
	saidWaiting bool
}

// submitFile submits a file's jobs. All of its lines are read and checked before the first is sent.
func submitFile(ctx context.Context, s *cli.Session, f *submission) error {
	key := f.idempotency
	if !s.Command.Flags().Changed("idempotency-key") {
		key = "file-" + strings.ToLower(rand.Text()[:16])
	}
	// The rest is for the numbers that are added.
	if longest := api.MaxIdempotencyKey - len("/1000000000/1000000000"); key == "" || len(key) > longest {
		return cli.Usage("--idempotency-key: must have 1 to %d characters with --file", longest)
	}
	file, remove, err := openJobs(f.file, s.In)
	if err != nil {
		return cli.Usage("--file: %w", err)
	}
	defer remove()
	total := 0
	if err := eachJob(file, func(fileJob) error { total++; return nil }); err != nil {
		return cli.Usage("--file %s: %w; nothing was submitted", f.file, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return cli.Environment(err)
	}
	bar, end := s.Progress(total, true, "submitting")
	to := &fileSubmit{Session: s, name: f.file, key: key, size: f.batch, bar: bar}
	if f.waitTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.waitTimeout)
		defer cancel()
	}
	err = to.run(ctx, file)
	end()
	if err == nil {
		return to.summary(total)
	}
	goOn := fmt.Sprintf("  %d of %d jobs were accepted. To resume: forgequeue submit --file %s --idempotency-key %s --batch %d", to.accepted, total, f.file, key, f.batch)
	if f.file == "-" {
		goOn += " with the same input"
	}
	return errors.Join(err, errors.New(goOn+"; what was accepted is not stored again (keys are kept for a day)."))
}

func (f *fileSubmit) run(ctx context.Context, file io.Reader) error {
	var batch []fileJob
	size, number := 0, 0
	flush := func() error {
		number++
		err := f.batch(ctx, batch, fmt.Sprintf("%s/%d", f.key, number))
		batch, size = batch[:0], 0
		return err
	}
	err := eachJob(file, func(job fileJob) error {
		text, err := json.Marshal(&job.request)
		if err != nil {
			return err
		}
		const margin = 64 << 10 // for the rest of the request's body
		if len(batch) > 0 && (len(batch) == f.size || size+len(text) > api.MaxBatchBody-margin) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, job), size+len(text)+len(",")
		return nil
	})
	if err == nil && len(batch) > 0 {
		err = flush()
	}
	return err
}

// batch submits jobs, and those that there is no room for again until there is.
func (f *fileSubmit) batch(ctx context.Context, jobs []fileJob, key string) error {
	for round := 1; len(jobs) > 0; round++ {
		numbered := key
		if round > 1 {
			numbered = fmt.Sprintf("%s/%d", key, round)
		}
		answer, replayed, err := f.send(ctx, jobs, numbered)
		if err != nil {
			return err
		}
		var left []fileJob
		var wait time.Duration
		var why *problem.Problem
		for i, result := range answer.Results {
			if p := result.Problem; p != nil && passes(p) {
				left = append(left, jobs[i])
				wait, why = max(wait, waitOf(p)), p
				continue
			}
			if err := f.ended(jobs[i].line, result); err != nil {
				return err
			}
		}
		if replayed {
			f.replayed += len(jobs) - len(left)
			wait = 0 // it was waited for when this was first answered
		}
		jobs = left
		if len(jobs) > 0 {
			f.sayWaiting(why, len(jobs))
			if err := sleep(ctx, wait); err != nil {
				return err
			}
		}
	}
	return nil
}

// send submits one batch. A refusal of all of it for its rate, or by an overloaded server, is waited for.
func (f *fileSubmit) send(ctx context.Context, jobs []fileJob, key string) (api.BatchResponse, bool, error) {
	request := api.BatchRequest{Jobs: make([]api.SubmitRequest, len(jobs))}
	for i := range jobs {
		request.Jobs[i] = jobs[i].request
	}
	for {
		f.describe("submitting")
		var replayed bool
		answer, err := f.Client.SubmitBatch(ctx, request, client.WithIdempotencyKey(key), client.WithReplayed(&replayed))
		if err == nil && len(answer.Results) != len(jobs) {
			err = fmt.Errorf("the server answered %d jobs with %d results", len(jobs), len(answer.Results))
		}
		if err == nil {
			return answer, replayed, nil
		}
		p, ok := problem.From(err)
		switch {
		case ok && p.Code == problem.CostAboveBurst:
			return answer, false, cli.Usage("lines %d to %d: the plan allows fewer jobs in one request: %s. Use a smaller --batch", jobs[0].line, jobs[len(jobs)-1].line, p.Detail)
		case ok && passes(p):
			f.sayWaiting(p, len(jobs))
			if err := sleep(ctx, waitOf(p)); err != nil {
				return answer, false, err
			}
		default:
			return answer, false, fmt.Errorf("lines %d to %d: %w", jobs[0].line, jobs[len(jobs)-1].line, err)
		}
	}
}

// passes reports whether a refusal ends by itself.
func passes(p *problem.Problem) bool {
	return p.Code != problem.CostAboveBurst && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable)
}

func waitOf(p *problem.Problem) time.Duration {
	const least, most = 200 * time.Millisecond, time.Minute
	if p.RetryAfterMS == nil {
		return time.Second
	}
	return min(max(time.Duration(*p.RetryAfterMS)*time.Millisecond, least), most)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return cli.TimedOut(errors.New("the server did not take all jobs within --wait-timeout"))
		}
		return errors.New("interrupted")
	case <-time.After(d):
		return nil
	}
}

// ended notes and shows what became of a line.
func (f *fileSubmit) ended(line int, result api.BatchResult) error {
	one := lineResult{Line: line, Status: result.Status, Problem: result.Problem}
	if result.Job != nil {
		one.ID = &result.Job.ID
		f.accepted++
	} else {
		f.refused++
		if f.refused <= mostRefusals && result.Problem != nil {
			f.Note("line %d: %s: %s", line, result.Problem.Code, result.Problem.Detail)
		}
	}
	if f.bar != nil {
		_ = f.bar.Add(1) // a failed write to a terminal changes nothing
	}
	switch {
	case f.Streams():
		return f.WriteJSON(one, "")
	case f.JSON:
		f.all = append(f.all, one)
	}
	return nil
}

// mostRefusals is how many refused lines are named on standard error; -o jsonl has all.
const mostRefusals = 20

func (f *fileSubmit) describe(what string) {
	if f.bar != nil {
		f.bar.Describe(what)
	}
}

// sayWaiting says once that jobs have to wait, where no progress bar does.
func (f *fileSubmit) sayWaiting(why *problem.Problem, jobs int) {
	f.describe("waiting (" + string(why.Code) + ")")
	if !f.saidWaiting && f.bar == nil {
		f.Note("%d of the jobs wait until the server takes them (%s: %s); --wait-timeout bounds the wait", jobs, why.Code, why.Detail)
	}
	f.saidWaiting = true
}

func (f *fileSubmit) summary(total int) error {
	if f.refused > mostRefusals {
		f.Note("… and %d refused lines more; -o jsonl shows all.", f.refused-mostRefusals)
	}
	if f.replayed > 0 {
		f.Note("%d of the lines had been submitted with this key before, and were not stored again.", f.replayed)
	}
	if !f.Streams() {
		answer := struct {
			Results  []lineResult `json:"results"`
			Accepted int          `json:"accepted"`
			Rejected int          `json:"rejected"`
		}{f.all, f.accepted, f.refused}
		err := f.Show(answer, func(t *cli.Table) {
			t.Row(fmt.Sprintf("%d of %d jobs accepted, %d refused", f.accepted, total, f.refused))
		})
		if err != nil {
			return err
		}
	}
	if f.refused > 0 {
		return fmt.Errorf("%d of %d jobs were refused; fix their lines and submit only those again", f.refused, total)
	}
	return nil
}

// openJobs opens a file of jobs. Standard input, and what cannot be read twice, is copied first.
func openJobs(name string, in io.Reader) (file *os.File, remove func(), err error) {
	if name != "-" {
		if file, err = os.Open(name); err != nil {
			return nil, nil, err
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file, func() { _ = file.Close() }, nil
		}
		defer func(pipe *os.File) { _ = pipe.Close() }(file)
		in = file
	}
	spool, err := os.CreateTemp("", "forgequeue-submit-*.jsonl")
	if err != nil {
		return nil, nil, err
	}
	remove = func() {
		_ = spool.Close()
		_ = os.Remove(spool.Name())
	}
	if _, err = io.Copy(spool, in); err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return spool, remove, nil
}

// eachJob reads a job from each line that is not empty.
func eachJob(file io.Reader, see func(fileJob) error) error {
	file, err := plaintext.Reader(file)
	if err != nil {
		return err
	}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, api.MaxBatchBody)
	line, jobs := 1, 0
	for ; scanner.Scan(); line++ {
		text := bytes.TrimSpace(scanner.Bytes())
		if len(text) == 0 {
			continue
		}
		job := fileJob{line: line}
		if err := decodeLine(text, &job.request); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if err := see(job); err != nil {
			return err
		}
		jobs++
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: exceeds the limit of %d bytes", line, api.MaxBatchBody)
	case err != nil:
		return err
	case jobs == 0:
		return errors.New("has no jobs")
	}
	return nil
}

func decodeLine(text []byte, into *api.SubmitRequest) error {
	if text[0] != '{' {
		return errors.New(`must be a job, such as {"type":"mail","payload":{"to":"ada"}}`)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	switch wrong, mistyped := errors.AsType[*json.UnmarshalTypeError](err); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is not whole JSON: each job must be on one line")
	case mistyped:
		return fmt.Errorf("%s: cannot be a %s", wrong.Field, wrong.Value)
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case into.Type == "":
		return errors.New("type: is missing")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has more than one JSON value")
	}
	return nil
}
