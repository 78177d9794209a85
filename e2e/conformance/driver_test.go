package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// command is one line of a driver's input. Commands are carried out at the same time.
type command struct {
	// ID is repeated in the answer.
	ID int `json:"id"`
	// Do is submit, rerun, submit_many, get, wait, result, result_text (the result as JSON), submit_and_wait, list, all, etag (of a job that is read), patch (changes are request), cancel, redrive, signal (its data is request), signal_link (good for delay_ms), output (all pieces),
	// put_budget, budget, budgets, budget_usage, delete_budget, verify; work, which is answered when the worker has stopped; stop, which stops one; go, which lets the handler of a job go on.
	Do  string `json:"do"`
	URL string `json:"url"`
	Key string `json:"key"`

	Request        json.RawMessage     `json:"request,omitzero"`
	Requests       []api.SubmitRequest `json:"requests,omitzero"`
	IdempotencyKey string              `json:"idempotency_key,omitzero"`
	TimeoutMS      int64               `json:"timeout_ms,omitzero"`
	Job            string              `json:"job,omitzero"`
	IfMatch        string              `json:"if_match,omitzero"`
	Queue          string              `json:"queue,omitzero"`
	Size           int                 `json:"size,omitzero"`
	Token          string              `json:"token,omitzero"`
	Name           string              `json:"name,omitzero"`
	Title          string              `json:"title,omitzero"`
	DelayMS        int64               `json:"delay_ms,omitzero"`
	Budget         string              `json:"budget,omitzero"`
	Subject        string              `json:"subject,omitzero"`
	From           string              `json:"from,omitzero"`
	To             string              `json:"to,omitzero"`

	Secrets []string          `json:"secrets,omitzero"`
	Headers map[string]string `json:"headers,omitzero"`
	Body    string            `json:"body"`

	Worker      int    `json:"worker,omitzero"`
	WorkerID    string `json:"worker_id,omitzero"`
	Concurrency int    `json:"concurrency,omitzero"`
	GraceMS     int64  `json:"grace_ms,omitzero"`
	// Signals makes the worker stop by a signal.
	Signals bool `json:"signals,omitzero"`
}

// script is the payload of a job of the type "script": the steps of its first delivery, of its second, and so on.
type script struct {
	Deliveries [][]step `json:"deliveries"`
	// N is what the step big returns.
	N int64 `json:"n,omitzero"`
}

// step is one step of a handler: return, undefined (nothing), unencodable (what is no JSON), large (more than a result may have), fail, snooze, throttled, used, progress, checkpoint,
// wait (for names, at most delay_ms), then_signal (with value), received (return the data of the signal name, "none" without, and what has woken the job),
// write (message to the stream name), log (message as a line), lines (amount lines, "line 1" the first, in turn to out and err),
// go (wait for the command), pause (wait for delay_ms), ended (wait to be told to stop, and say so), rethrow (throw why), listen (say later if it is told to stop),
// big (return the payload's n, as text).
type step struct {
	Do           string   `json:"do"`
	Value        any      `json:"value,omitzero"`
	Message      string   `json:"message,omitzero"`
	Percent      *float64 `json:"percent,omitzero"`
	Permanent    bool     `json:"permanent,omitzero"`
	RetryAfterMS *int64   `json:"retry_after_ms,omitzero"`
	DelayMS      int64    `json:"delay_ms,omitzero"`
	Budget       string   `json:"budget,omitzero"`
	// Amount is how many lines, or what was used of Budget; one that is no whole number has to be refused.
	Amount float64 `json:"amount"`
	// Job is whom then_signal signals.
	Job   string   `json:"job,omitzero"`
	Name  string   `json:"name,omitzero"`
	Names []string `json:"names,omitzero"`
	All   bool     `json:"all,omitzero"`
	// Jobs follow, of then.
	Jobs []api.SubmitRequest `json:"jobs,omitzero"`
}

// line is one line of a driver's output: the answer to a command, or an event of a worker.
type line struct {
	ID    int             `json:"id,omitzero"`
	OK    json.RawMessage `json:"ok,omitzero"`
	Error *failure        `json:"error,omitzero"`

	// Event is started, when a handler begins, or told, when it learns that it should stop, or heard, if that came after listen.
	Event      string          `json:"event,omitzero"`
	Worker     int             `json:"worker,omitzero"`
	Job        string          `json:"job,omitzero"`
	Attempt    int             `json:"attempt,omitzero"`
	Epoch      int64           `json:"epoch,omitzero"`
	Checkpoint json.RawMessage `json:"checkpoint,omitzero"`
	// Running is how many handlers of the worker run when one begins, this one included.
	Running int `json:"running,omitzero"`
	// Cause is lease_lost, cancel, timeout or stopping.
	Cause string `json:"cause,omitzero"`
}

// failure is an error of a client.
type failure struct {
	// Kind is problem, status, no_answer, deadline, ended or other.
	Kind         string `json:"kind"`
	Code         string `json:"code"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	RetryAfterMS *int64 `json:"retry_after_ms"`
	State        string `json:"state"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
}

// goDriver is the driver of the Go client.
type goDriver struct {
	mu      sync.Mutex
	out     *json.Encoder
	clients map[string]*client.Client
	stops   map[int]context.CancelFunc
	gates   map[string]chan struct{}
	running map[int]int
}

func drive(in io.Reader, out io.Writer) {
	d := &goDriver{out: json.NewEncoder(out), clients: map[string]*client.Client{}, stops: map[int]context.CancelFunc{}, gates: map[string]chan struct{}{}, running: map[int]int{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Do == "work" {
			d.prepare(c.ID)
		}
		go func() {
			answer, err := d.do(c)
			if err != nil {
				d.say(line{ID: c.ID, Error: failureOf(err)})
				return
			}
			text, err := json.Marshal(answer)
			if err != nil {
				panic(err)
			}
			d.say(line{ID: c.ID, OK: text})
		}()
	}
}

func (d *goDriver) say(l line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.out.Encode(l) // to a test that has ended
}

// prepare makes a stop that comes right after its work find it.
func (d *goDriver) prepare(id int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stops[id] = func() {}
}

func (d *goDriver) client(c command) *client.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := c.URL + " " + c.Key
	if d.clients[name] == nil {
		made, err := client.New(client.Options{URL: c.URL, APIKey: c.Key})
		if err != nil {
			panic(err)
		}
		d.clients[name] = made
	}
	return d.clients[name]
}

func (d *goDriver) gate(job string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gates[job] == nil {
		d.gates[job] = make(chan struct{})
	}
	return d.gates[job]
}

// entered counts the handlers of a worker that run.
func (d *goDriver) entered(worker, more int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running[worker] += more
	return d.running[worker]
}

func (d *goDriver) do(c command) (any, error) {
	ctx := context.Background()
	if c.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	switch c.Do {
	case "work":
		return nil, d.work(ctx, c)
	case "stop":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stops[c.Worker]()
		return nil, nil
	case "go":
		close(d.gate(c.Job))
		return nil, nil
	case "verify":
		return verified(c), nil
	default:
		return d.produce(ctx, d.client(c), c)
	}
}

func (d *goDriver) produce(ctx context.Context, api *client.Client, c command) (any, error) {
	switch c.Do {
	case "submit", "rerun", "submit_and_wait":
		return submits(ctx, api, c)
	case "submit_many":
		return submitsMany(ctx, api, c)
	case "get":
		return api.Get(ctx, c.Job)
	case "wait":
		return api.Wait(ctx, c.Job)
	case "result":
		return client.Wait[json.RawMessage](ctx, api, c.Job)
	case "result_text":
		job, err := api.Get(ctx, c.Job)
		return string(job.Result), err
	case "list":
		return lists(ctx, api, c)
	case "all":
		return all(ctx, api, c)
	case "bulk":
		return bulks(ctx, api, c)
	case "etag", "patch":
		return patched(ctx, api, c)
	case "cancel":
		return api.Cancel(ctx, c.Job)
	case "redrive":
		return api.Redrive(ctx, c.Job)
	case "output":
		return outputOf(ctx, api, c)
	case "signal", "signal_link":
		return signalled(ctx, api, c)
	default:
		return budgets(ctx, api, c)
	}
}

// submitted is the answer to submit and rerun.
type submitted struct {
	ID           string `json:"id"`
	State        string `json:"state"`
	Replayed     bool   `json:"replayed"`
	Deduplicated bool   `json:"deduplicated"`
	Replaced     bool   `json:"replaced"`
}

func submits(ctx context.Context, c *client.Client, cmd command) (any, error) {
	var answer submitted
	var job api.SubmitResponse
	var err error
	options := []client.CallOption{client.WithIdempotencyKey(cmd.IdempotencyKey), client.WithReplayed(&answer.Replayed)}
	switch cmd.Do {
	case "rerun":
		var differs api.RerunRequest
		if err := json.Unmarshal(cmd.Request, &differs); err != nil {
			return nil, err
		}
		job, err = c.Rerun(ctx, cmd.Job, differs, options...)
	default:
		var request api.SubmitRequest
		if err := json.Unmarshal(cmd.Request, &request); err != nil {
			return nil, err
		}
		if cmd.Do == "submit_and_wait" {
			ended, err := c.SubmitAndWait(ctx, request, options...)
			return ended.Result, err
		}
		job, err = c.Submit(ctx, request, options...)
	}
	answer.ID, answer.State, answer.Deduplicated, answer.Replaced = job.ID, job.State, job.Deduplicated, job.Replaced
	return answer, err
}

// manyAnswer is the answer to submit_many.
type manyAnswer struct {
	Accepted int          `json:"accepted"`
	Rejected int          `json:"rejected"`
	Replayed bool         `json:"replayed"`
	Results  []manyResult `json:"results"`
}

type manyResult struct {
	Index  int    `json:"index"`
	Status int    `json:"status"`
	ID     string `json:"id"`
	Code   string `json:"code"`
}
