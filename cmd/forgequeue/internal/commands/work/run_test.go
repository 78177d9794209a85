package work_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The command does as the job's user says.
func TestWorkerRunExitCodes(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Work("-q", q, "--concurrency", "3", "--snooze", "1h", "--", "sh", "-c", `eval "$FORGEQUEUE_JOB_USER"`)
	submit := func(script string) string {
		return f.Submitted("shell", "-q", q, "--max-attempts", "1", "--user", script)
	}
	for _, c := range []struct{ script, result string }{
		{`echo hello; echo world`, `"hello\nworld"`},
		{`printf ' { "a" : [1, 2.50] }\n\n'`, `{"a":[1,2.50]}`},
		{`echo 42`, `42`},
		{`true`, `null`},
		{`printf '<a> & b'`, `"<a> & b"`},
		{`echo to the log >&2; echo fine`, `"fine"`},
	} {
		job := f.Ended(submit(c.script))
		if job.State != api.StateCompleted || commandtest.Compact(t, job.Result) != c.result {
			t.Errorf("%s: %s, result %s, want %s (%+v)", c.script, job.State, job.Result, c.result, job.LastError)
		}
	}
	for _, c := range []struct{ script, kind, message, reason string }{
		{`echo broken >&2; exit 3`, "exit_3", "exit status 3: broken", api.ReasonExhausted},
		{`echo never >&2; exit 65`, "exit_65", "exit status 65: never", api.ReasonPermanent},
		{`kill -9 $$`, "signal_9", "signal: killed", api.ReasonExhausted},
	} {
		job := f.Ended(submit(c.script))
		if job.State != api.StateDeadLetter || job.LastError == nil || job.LastError.Type != c.kind ||
			!strings.Contains(job.LastError.Message, c.message) || *job.DeadReason != c.reason {
			t.Errorf("%s: %s %v %+v", c.script, job.State, job.DeadReason, job.LastError)
		}
	}
	snoozed := submit("exit 75")
	f.Eventually("the job is snoozed", func() bool {
		job := f.State(snoozed)
		return job.State == api.StateScheduled && job.Attempt == 0 && job.RunAt.After(time.Now().Add(50*time.Minute))
	})
}

func TestWorkerRunKilledCommand(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Work("-q", q, "--", "sh", "-c", "kill -9 $$")
	job := f.Ended(f.Submitted("any", "-q", q, "--max-attempts", "1"))
	if job.LastError == nil || job.LastError.Type != "signal_9" || !strings.Contains(job.LastError.Message, "signal: killed") {
		t.Errorf("%s %+v", job.State, job.LastError)
	}
}

func TestWorkerRunBigOutput(t *testing.T) {
	f := commandtest.New(t)
	fits, tooLong, inflated, chatty := f.Queue(), f.Queue(), f.Queue(), f.Queue()
	f.Work("-q", fits, "--", "sh", "-c", `printf '"'; head -c 262142 /dev/zero | tr '\0' a; echo '"'`)
	f.Work("-q", tooLong, "--", "sh", "-c", `head -c 5000000 /dev/zero | tr '\0' a`)
	f.Work("-q", inflated, "--", "sh", "-c", `head -c 200000 /dev/zero | tr '\0' '\042'`)
	f.Work("-q", chatty, "--", "sh", "-c", `head -c 1000000 /dev/zero | tr '\0' b >&2; echo >&2; echo the end >&2; exit 1`)
	if job := f.Ended(f.Submitted("x", "-q", fits)); job.State != api.StateCompleted || len(job.Result) != api.MaxResult {
		t.Errorf("%s, %d bytes, %+v", job.State, len(job.Result), job.LastError)
	}
	for q, says := range map[string]string{tooLong: "standard output has more than the 262144 bytes", inflated: "as a JSON string it has 400002 bytes"} {
		job := f.Ended(f.Submitted("x", "-q", q))
		if job.State != api.StateDeadLetter || *job.DeadReason != api.ReasonPermanent || job.LastError.Type != "result" ||
			!strings.Contains(job.LastError.Message, says) {
			t.Errorf("%s %+v", job.State, job.LastError)
		}
	}
	job := f.Ended(f.Submitted("x", "-q", chatty, "--max-attempts", "1"))
	if job.LastError == nil || !strings.HasSuffix(job.LastError.Message, "\nthe end") || len(job.LastError.Message) > api.MaxErrorMessage {
		t.Errorf("%s %+v", job.State, job.LastError)
	}
}

func TestWorkerRunEnvironmentAndPayload(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Work("-q", q, "--tag", "gpu", "--", "sh", "-c",
		`echo "$FORGEQUEUE_JOB_ID $FORGEQUEUE_JOB_TYPE $FORGEQUEUE_JOB_QUEUE $FORGEQUEUE_JOB_ATTEMPT/$FORGEQUEUE_JOB_MAX_ATTEMPTS `+
			`$FORGEQUEUE_JOB_EPOCH $FORGEQUEUE_JOB_USER $FORGEQUEUE_JOB_TAGS $FORGEQUEUE_JOB_METADATA $FORGEQUEUE_JOB_PRIORITY $(cat)"`)
	id := f.Submitted("mail", "-q", q, "--user", "ada", "--tag", "gpu", "--metadata", "shop=berlin", "--data", `{"n": 1}`, "--priority", "7", "--max-attempts", "4")
	var text string
	if err := json.Unmarshal(f.Ended(id).Result, &text); err != nil {
		t.Fatal(err)
	}
	if want := id + " mail " + q + ` 1/4 1 ada gpu {"shop":"berlin"} 7 {"n":1}`; text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}

// A cancelled job's command, and what it has started, is gone.
func TestWorkerRunCancel(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	dir := t.TempDir()
	// It does not heed SIGTERM; nor does its child.
	f.Work("-q", q, "--kill-after", "300ms", "--", "sh", "-c",
		`trap '' TERM; echo $$ > `+dir+`/parent; sh -c 'trap "" TERM; echo $$ > `+dir+`/child; while :; do sleep 1; done' & wait; while :; do sleep 1; done`)
	if code := f.Run("queues", "set", q, "--visibility-timeout", "2s").Code; code != 0 {
		t.Fatal("queues set")
	}
	id := f.Submitted("x", "-q", q)
	pids := []string{pidIn(f, dir, "parent"), pidIn(f, dir, "child")}
	f.Want(0, []string{"asked to stop"}, "job", "cancel", id)
	if job := f.Ended(id); job.State != api.StateCancelled {
		t.Errorf("%s %+v", job.State, job.LastError)
	}
	for _, pid := range pids {
		f.Eventually("the process "+pid+" is gone", func() bool { return !alive(pid) })
	}
	f.Want(1, []string{"cancelled"}, "job", "watch", id)
}

func pidIn(f *commandtest.Fixture, dir, name string) (pid string) {
	f.Helper()
	f.Eventually("the command runs", func() bool {
		content, _ := os.ReadFile(filepath.Join(dir, name))
		pid = strings.TrimSpace(string(content))
		return pid != ""
	})
	return pid
}

func alive(pid string) bool {
	content, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(content), ") Z ")
}

// What a command leaves running, its job does not wait for, and it does not stay.
func TestWorkerRunLeavesNothingBehind(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	dir := t.TempDir()
	f.Work("-q", q, "--", "sh", "-c", `sh -c 'echo $$ > `+dir+`/child; sleep 100' & while [ ! -s `+dir+`/child ]; do sleep 0.05; done; echo done`)
	began := time.Now()
	job := f.Ended(f.Submitted("x", "-q", q))
	if job.State != api.StateCompleted || string(job.Result) != `"done"` || time.Since(began) > 30*time.Second {
		t.Errorf("%s %s %+v after %v", job.State, job.Result, job.LastError, time.Since(began))
	}
	child := pidIn(f, dir, "child")
	f.Eventually("the child is gone", func() bool { return !alive(child) })
}

func TestWorkerRunTimeouts(t *testing.T) {
	f := commandtest.New(t)
	own, jobs := f.Queue(), f.Queue()
	f.Work("-q", own, "--timeout", "300ms", "--", "sleep", "100")
	f.Work("-q", jobs, "--", "sleep", "100")
	for _, id := range []string{
		f.Submitted("x", "-q", own, "--max-attempts", "1"), f.Submitted("x", "-q", jobs, "--max-attempts", "1", "--timeout", "1s"),
	} {
		job := f.Ended(id)
		if job.State != api.StateDeadLetter || job.LastError == nil || job.LastError.Type != "timeout" {
			t.Errorf("%s %+v", job.State, job.LastError)
		}
	}
}

func TestWorkerRunDrains(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	dir := t.TempDir()
	w := f.Work("-q", q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; sleep 1; echo finished`)
	id, later := f.Submitted("x", "-q", q), f.Submitted("x", "-q", q)
	pidIn(f, dir, "pid")
	w.Stop()
	if code := w.Wait(f); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if job := f.State(id); job.State != api.StateCompleted {
		t.Errorf("the job that ran is %s", job.State)
	}
	if job := f.State(later); job.State != api.StateQueued {
		t.Errorf("the job that waited is %s", job.State)
	}
}

// A worker that has no time left releases its job, and no attempt is spent.
func TestWorkerRunStopsAtTheEndOfItsGrace(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	dir := t.TempDir()
	w := f.Work("-q", q, "--grace", "0s", "--", "sh", "-c", `trap '' TERM; echo $$ > `+dir+`/pid; while :; do sleep 1; done`)
	id := f.Submitted("x", "-q", q)
	pid := pidIn(f, dir, "pid")
	w.Stop()
	if code := w.Wait(f); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if job := f.State(id); job.State != api.StateQueued || job.Attempt != 0 {
		t.Errorf("the job is %s, attempt %d", job.State, job.Attempt)
	}
	f.Eventually("the command is gone", func() bool { return !alive(pid) })
}

func TestWorkerRunTypes(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Work("-q", q, "--type", "mine", "--", "echo", "ok")
	mine, other := f.Submitted("mine", "-q", q), f.Submitted("other", "-q", q)
	if job := f.Ended(mine); job.State != api.StateCompleted {
		t.Errorf("%s", job.State)
	}
	if job := f.State(other); job.State != api.StateQueued || job.Epoch != 0 {
		t.Errorf("a job of another type: %s, epoch %d", job.State, job.Epoch)
	}
	f.Want(0, []string{"unserved", "other"}, "queues", "get", q)
	f.Want(0, []string{"TYPES", "mine"}, "workers")
}

func TestWorkerRunRefuses(t *testing.T) {
	f := commandtest.New(t)
	f.Want(3, []string{"no-such-program"}, "worker", "run", "-q", "q", "--", "no-such-program")
	f.Want(2, []string{"name the command"}, "worker", "run", "-q", "x")
	f.Want(2, []string{"--concurrency"}, "worker", "run", "-q", "q", "--concurrency", "0", "--", "true")
	f.Want(2, []string{"queues[0]"}, "worker", "run", "-q", "no good", "--", "true")
	f.Want(2, []string{"--type"}, "worker", "run", "--type", "no good", "--", "true")
	f.With("FORGEQUEUE_API_KEY", "fq_live_wrong").Want(3, []string{"unauthenticated"}, "worker", "run", "-q", "q", "--", "true")
}
