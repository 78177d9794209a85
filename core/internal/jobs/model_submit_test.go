package jobs_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// modelKey is the scope of an Idempotency-Key.
type modelKey struct {
	tenant    tenant.ID
	user, key string
}

type remembered struct {
	body   int
	answer submit.Answer
}

// wanted is one submission with what is known of it.
type wanted struct {
	submit.Submission
	job *modelJob
	// late: its deadline lies in the past.
	late bool
	body int
}

func (w *world) submit(t *rapid.T) { w.flush(t, false) }

func (w *world) submitKeyed(t *rapid.T) { w.flush(t, true) }

func (w *world) flush(t *rapid.T, keyed bool) {
	var batch []*wanted
	for range rapid.IntRange(1, 3).Draw(t, "submissions") {
		batch = append(batch, w.want(t, keyed && rapid.IntRange(0, 3).Draw(t, "keyed") > 0))
	}
	submissions := make([]submit.Submission, len(batch))
	for i := range batch {
		submissions[i] = batch[i].Submission
	}
	answers, err := w.store().Submits.Submit(w.ctx, submissions)
	if err != nil {
		t.Fatal(err)
	}
	w.expectAnswers(t, batch, answers)
}

func (w *world) want(t *rapid.T, keyed bool) *wanted {
	lane := w.lanes[rapid.IntRange(0, len(w.lanes)-1).Draw(t, "lane")]
	user := rapid.SampledFrom([]string{"", "", "bob"}).Draw(t, "user")
	j := &modelJob{
		id: uuid.Must(uuid.NewV7()), tenant: lane.Tenant, lane: lane.ID, user: user,
		priority:    rapid.SampledFrom([]int{0, 5, 9}).Draw(t, "priority"),
		maxAttempts: rapid.IntRange(1, 4).Draw(t, "max_attempts"),
		timeout:     rapid.IntRange(0, 3).Draw(t, "timeout") == 0,
		dedupe:      rapid.SampledFrom([]string{"", "", "", "", "d1", "d2"}).Draw(t, "dedupe_key"),
		payload:     fmt.Sprintf(`{"n": %d.0}`, len(w.order)),
		hasDeadline: rapid.IntRange(0, 3).Draw(t, "deadline") == 0,
		changed:     true,
	}
	made := submit.NewJob{
		ID: j.id, Lane: lane.ID, Queue: lane.Queue, Type: lane.Type, User: optionalText(user), Priority: j.priority,
		Payload: []byte(j.payload), Metadata: []byte(`{}`), Tags: lane.Tags(), MaxAttempts: j.maxAttempts,
		Retry: job.Retry{Base: modelBase, Cap: modelCap, Jitter: 0.2}, DedupeKey: optionalText(j.dedupe),
	}
	made.Caps = w.activeCaps(t, lane.Tenant, lane.Queue, made.User)
	if rapid.IntRange(0, 2).Draw(t, "delayed") == 0 {
		made.Delay = modelDelay
	}
	if j.timeout {
		ms := modelTimeout.Milliseconds()
		made.TimeoutMS = &ms
	}
	wish := &wanted{job: j, body: rapid.IntRange(0, 2).Draw(t, "body")}
	// One body is one request: that it is late cannot differ from submit to submit.
	wish.late = wish.body == 2 && (keyed || j.hasDeadline)
	if j.hasDeadline = j.hasDeadline || wish.late; j.hasDeadline {
		deadline := time.Now().Add(24 * time.Hour)
		if wish.late {
			deadline = time.Now().Add(-24 * time.Hour)
		}
		made.Deadline = &deadline
	}
	wish.Submission = submit.Submission{Tenant: j.tenant, User: user, Jobs: []submit.NewJob{made}, Render: celltest.Render}
	if keyed {
		wish.Idempotency = &submit.Idempotency{
			Operation: "submit", Key: rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key"),
			Fingerprint: sha256.Sum256([]byte{byte(wish.body)}),
		}
	}
	return wish
}

func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s *wanted) scope() modelKey {
	return modelKey{s.Tenant, s.User, s.Idempotency.Key}
}

// expectAnswers predicts a flush. Keys are looked up before anything is stored,
// so the second of two equal keys in one flush gets the answer of the first; where
// the first is refused, and the second has another body, it is the first of
// another round.
func (w *world) expectAnswers(t *rapid.T, batch []*wanted, answers []submit.Answer) {
	round := make([]int, len(batch))
	for i := range round {
		round[i] = i
	}
	for len(round) > 0 {
		round = w.expectRound(t, batch, round, answers)
	}
	w.checkAccepted(t, batch, answers)
}

// expectRound predicts one round, in which jobs in time are stored before late
// ones are refused, and gives the next one.
func (w *world) expectRound(t *rapid.T, batch []*wanted, round []int, answers []submit.Answer) (next []int) {
	w.tick++
	firsts := map[modelKey]int{}
	var fresh, late, repeats []int
	for _, i := range round {
		s := batch[i]
		if s.Idempotency != nil {
			_, known := w.keys[s.scope()]
			_, second := firsts[s.scope()]
			if known || second {
				repeats = append(repeats, i)
				continue
			}
			firsts[s.scope()] = i
		}
		if s.late {
			late = append(late, i)
		} else {
			fresh = append(fresh, i)
		}
	}
	for _, i := range append(fresh, late...) {
		w.expectFresh(t, batch[i], &answers[i])
	}
	for _, i := range repeats {
		s := batch[i]
		if before, known := w.keys[s.scope()]; known {
			expectReplay(t, s, &answers[i], before)
		} else if s.body != batch[firsts[s.scope()]].body {
			next = append(next, i)
		} else if got := &answers[i]; got.Problem == nil || got.Problem.Code != problem.InvalidRequest || got.Accepted != 0 {
			t.Fatalf("with a refused submit of the same key and body: %+v", got)
		}
	}
	return next
}

func (w *world) expectFresh(t *rapid.T, s *wanted, got *submit.Answer) {
	holder := w.holder(s.job)
	switch {
	case got.Replayed:
		t.Fatalf("a first submit was answered as a repeat: %s", celltest.ResponseTo(got).Body)
	case holder == nil && s.late:
		if got.Problem == nil || got.Problem.Code != problem.InvalidRequest || got.Accepted != 0 {
			t.Fatalf("a late submit: %+v", got)
		}
		return
	case holder != nil:
		expectStored(t, got, 200, holder, true)
	default:
		w.jobs[s.job.id], w.order = s.job, append(w.order, s.job.id)
		if s.Jobs[0].Delay > 0 {
			s.job.schedule(modelDelay)
		} else {
			s.job.queue(w.tick)
		}
		expectStored(t, got, 202, s.job, false)
	}
	if s.Idempotency != nil {
		w.keys[s.scope()] = remembered{s.body, *got}
	}
}

// holder is the live job that has another's dedupe_key.
func (w *world) holder(j *modelJob) *modelJob {
	if j.dedupe == "" {
		return nil
	}
	for _, other := range w.jobs {
		if other.live() && other.tenant == j.tenant && other.user == j.user && other.dedupe == j.dedupe {
			return other
		}
	}
	return nil
}

func expectStored(t *rapid.T, got *submit.Answer, status int, j *modelJob, deduplicated bool) {
	var body api.SubmitResponse
	response := celltest.ResponseTo(got)
	if got.Problem != nil || json.Unmarshal(response.Body, &body) != nil {
		t.Fatalf("a submit: %+v", got)
	}
	accepted, ready := 1, j.state == "queued"
	if deduplicated {
		accepted, ready = 0, false
	}
	if response.Status != status || got.Accepted != accepted || (len(got.Ready) == 1 && got.Ready[0].Lane == j.lane) != ready ||
		got.Scheduled != (!deduplicated && j.state == "scheduled") ||
		body.ID != j.id.String() || body.State != j.state || body.Deduplicated != deduplicated || body.Epoch != int64(j.epoch) {
		t.Fatalf("a submit got %+v\n%s\nwant %d, job %s %s", got, response.Body, status, j.id, j.state)
	}
}

func expectReplay(t *rapid.T, s *wanted, got *submit.Answer, before remembered) {
	if s.body != before.body {
		if got.Problem == nil || got.Problem.Code != problem.IdempotencyMismatch {
			t.Fatalf("the key %v with another body: %+v", s.scope(), got)
		}
		return
	}
	if got.Problem != nil || !got.Replayed || got.Saved.Status != before.answer.Saved.Status || string(got.Saved.Body) != string(before.answer.Saved.Body) || got.Accepted != 0 {
		t.Fatalf("a repeat with the key %v got %+v\n%s\nfirst %s", s.scope(), got, celltest.ResponseTo(got).Body, before.answer.Saved.Body)
	}
}

// checkAccepted: what was accepted is what the model now has.
func (w *world) checkAccepted(t *rapid.T, batch []*wanted, answers []submit.Answer) {
	for i, s := range batch {
		if _, stored := w.jobs[s.job.id]; stored != (answers[i].Accepted == 1) {
			t.Fatalf("submission %d: stored %v, accepted %d", i, stored, answers[i].Accepted)
		}
	}
}
