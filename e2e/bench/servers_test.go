package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestServersTable(t *testing.T) {
	t.Parallel()
	r := &results{Measures: map[string]map[int]float64{}}
	for round, values := range [][3]float64{{2000, 100, 40}, {1000, 100, 10}, {4000, 100, 80}} {
		for i, column := range columns() {
			r.add(round, serverMeasure(rowSingle, column), values[i])
		}
	}
	r.add(0, serverMeasure(rowBroker, columnOurs), 12)
	r.add(0, serverMeasure(rowBroker, columnRabbit), 141.26)
	r.add(0, serverMeasure(rowIdle, columnRabbit), 13.83)
	var out bytes.Buffer
	r.print(&out)
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"SERVERS, medians ForgeQueue Hatchet + RabbitMQ ÷ ours Hatchet on PostgreSQL ÷ ours",
		// Ratios are of a round each: 0.05, 0.1, 0.025 and 0.02, 0.01, 0.02.
		rowSingle + " 2000 100 0.05 40 0.02",
		rowIdle + " – 13.8 – – –",
		rowBroker + " 12 141 11.8 – –",
	} {
		if !strings.Contains(strings.Join(got, "\n"), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "not measured") || strings.Contains(out.String(), rowMemory) {
		t.Errorf("what was not asked for is shown:\n%s", out.String())
	}
	if len(r.Servers) != 3 || r.Servers[0].Ratios[columnRabbit] != 0.05 {
		t.Errorf("JSON has %+v", r.Servers)
	}
}

func TestServersAreCompleteWithoutABar(t *testing.T) {
	t.Parallel()
	r := &results{Measures: map[string]map[int]float64{}}
	r.add(0, serverMeasure(rowSingle, columnOurs), 1)
	if err := r.complete(true); err != nil {
		t.Error(err)
	}
	if r.complete(false) == nil {
		t.Error("all of it was asked for, and there is no bar")
	}
	if r.cut = true; r.complete(true) == nil {
		t.Error("there was no time for the others")
	}
}

func TestWithoutHatchetOnlyServersIsOursAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		o    options
		want string
	}{
		{options{}, "turns single"},
		{options{hatchet: "/clone"}, "turns single servers"},
		{options{only: partTurns, hatchet: "/clone"}, "turns"},
		{options{only: partServers}, "servers"},
	} {
		var got []string
		for _, part := range []string{partTurns, partSingle, partServers} {
			if test.o.part(part) {
				got = append(got, part)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v", test.o, got)
		}
	}
	_, err := buildHatchet(t.Context(), t.TempDir())
	if _, ok := errors.AsType[*notACloneError](err); !ok {
		t.Errorf("a folder that is no clone: %v", err)
	}
}

// Every order counts the jobs that it submitted itself, each once.
func TestLoaderCountsEachJobOnce(t *testing.T) {
	t.Parallel()
	var l loader
	run := func(from, end int) {
		for n := from; n < end; n++ {
			go func() {
				l.started(n)
				l.started(n)
			}()
		}
	}
	l.submit = func(_ context.Context, n int) error { run(n, n+1); return nil }
	l.batch = func(_ context.Context, from, end int) error { run(from, end); return nil }
	for _, o := range []order{
		{Do: "first", Jobs: 3},
		{Do: "single", For: 50 * time.Millisecond},
		{Do: "batches", Jobs: 4000},
		{Do: "idle", Jobs: 3},
	} {
		before := int(l.next.Load())
		done := l.do(t.Context(), o)
		if submitted := int(l.next.Load()) - before; done.Error != "" || done.Jobs != submitted || done.Jobs < o.Jobs || done.Jobs == 0 {
			t.Errorf("%+v: %+v, submitted %d", o, done, submitted)
		}
	}
}

// What is refused is neither a job nor waited for.
func TestLoaderDoesNotWaitForWhatIsRefused(t *testing.T) {
	t.Parallel()
	var l loader
	l.batch = func(_ context.Context, from, end int) error {
		if from == 0 {
			return errors.New("full")
		}
		for n := from; n < end; n++ {
			l.started(n)
		}
		return nil
	}
	done := l.do(t.Context(), order{Do: "batches", Jobs: 2000})
	if done.Error != "" || done.Failed != batchJobs || done.Example != "full" || done.Jobs != int(l.next.Load())-batchJobs {
		t.Errorf("%+v", done)
	}
	l.batch = func(context.Context, int, int) error { return errors.New("down") }
	if done := l.do(t.Context(), order{Do: "batches", Jobs: 2000}); !strings.Contains(done.Error, "down") || done.Jobs != 0 {
		t.Errorf("none was accepted: %+v", done)
	}
}

func TestLoaderSubmitsUntilOneIsAccepted(t *testing.T) {
	t.Parallel()
	var l loader
	tries := 0
	l.submit = func(_ context.Context, n int) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		l.started(n)
		return nil
	}
	var answers bytes.Buffer
	if err := l.serve(t.Context(), strings.NewReader(`{"do":"first","jobs":1}{"do":"dance"}`), &answers); err != nil {
		t.Fatal(err)
	}
	if got := answers.String(); tries != 3 || !strings.Contains(got, `"jobs":1`) || !strings.Contains(got, `no such order: \"dance\"`) {
		t.Errorf("%d tries: %s", tries, got)
	}
}
