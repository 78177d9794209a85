package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// settings are the flags of a run. A scenario's entry in scenarios has the flags it
// takes and their defaults.
type settings struct {
	rate                   float64
	closed                 bool
	concurrency, consumers int
	batch, claimBatch      int
	items, types, keys     int
	keyRunning             int
	jobs, tenants          int
	duration               time.Duration
	payload                int
	queue, tenant          string
	limits, keyed          bool

	lead, slice int
	compare     bool
	depths      depths
	claims      int
	backlog     int
	work        time.Duration
	databaseURL string
	core        string
	up          bool
	allowRemote bool
	json        bool
}

// definitions are all flags by name.
func (s *settings) definitions() map[string]func(*pflag.FlagSet) {
	whole := func(name string, value *int, usage string) func(*pflag.FlagSet) {
		return func(f *pflag.FlagSet) { f.IntVar(value, name, *value, usage) }
	}
	return map[string]func(*pflag.FlagSet){
		"rate": func(f *pflag.FlagSet) {
			f.Float64Var(&s.rate, "rate", s.rate, "jobs a second that are meant to be submitted (open-loop)")
		},
		"closed": func(f *pflag.FlagSet) {
			f.BoolVar(&s.closed, "closed", s.closed, "closed-loop: each sender sends when it has its last answer, as fast as it can")
		},
		"concurrency":     whole("concurrency", &s.concurrency, "senders that submit at once, each with a connection"),
		"consumers":       whole("consumers", &s.consumers, "senders that claim and complete at once, each with a connection"),
		"batch":           whole("batch", &s.batch, "jobs in one submit, 1 to 1000; 1 is the route for a single job"),
		"claim-batch":     whole("claim-batch", &s.claimBatch, "jobs in one claim, and in one call that completes them, 1 to 1000"),
		"types":           whole("types", &s.types, "types of jobs; with more than one, of all priorities too"),
		"keys":            whole("keys", &s.keys, "keys that jobs are of, which take turns; 0 for jobs without keys"),
		"key-max-running": whole("key-max-running", &s.keyRunning, "with --keys: jobs of a key that may run at once; 0 for no limit"),
		"items":           whole("items", &s.items, "with --core: callers' submits in one signed call, as a gateway joins them, 1 to 1000"),
		"jobs":            whole("jobs", &s.jobs, "jobs at most; 0 leaves it to --duration, where that is possible"),
		"duration": func(f *pflag.FlagSet) {
			f.DurationVar(&s.duration, "duration", s.duration, "time at most, of each part that is measured")
		},
		"tenants": whole("tenants", &s.tenants, "tenants, made for the run (operator key); 0 uses the API key's own"),
		"limits": func(f *pflag.FlagSet) {
			f.BoolVar(&s.limits, "limits", s.limits, "every rate and cap on, high enough to refuse nothing (operator key)")
		},
		"keyed": func(f *pflag.FlagSet) {
			f.BoolVar(&s.keyed, "keyed", s.keyed, "an Idempotency-Key with every submit")
		},
		"payload-bytes": whole("payload-bytes", &s.payload, "size of a payload, about"),
		"queue": func(f *pflag.FlagSet) {
			f.StringVar(&s.queue, "queue", s.queue, "queue (default one of this run's own)")
		},
		"lead":  whole("lead", &s.lead, "closed-loop: how many jobs producers may be ahead of consumers"),
		"slice": whole("slice", &s.slice, "jobs in a slice; the last one's rate is divided by the first one's (default a tenth of --jobs)"),
		"compare": func(f *pflag.FlagSet) {
			f.BoolVar(&s.compare, "compare", s.compare, "the same without a snapshot first, to divide by")
		},
		"database-url": func(f *pflag.FlagSet) {
			f.StringVar(&s.databaseURL, "database-url", s.databaseURL, "PostgreSQL on which the snapshot is held (default DATABASE_URL, or that of --up)")
		},
		"depths": func(f *pflag.FlagSet) {
			f.Var(&s.depths, "depths", "numbers of queued jobs to claim at, rising; 10k and 5M are understood")
		},
		"claims":  whole("claims", &s.claims, "claims at each depth"),
		"backlog": whole("backlog", &s.backlog, "jobs that the hostile tenant has queued"),
		"work": func(f *pflag.FlagSet) {
			f.DurationVar(&s.work, "work", s.work, "how long a consumer works on what it claimed at once")
		},
		"core": func(f *pflag.FlagSet) {
			f.StringVar(&s.core, "core", s.core, "URL of core's internal API: past the gateway, signed with FORGEQUEUE_HOP_SECRET")
		},
		"tenant": func(f *pflag.FlagSet) {
			f.StringVar(&s.tenant, "tenant", s.tenant, "with --core: id of a tenant to act for (default one made for the run)")
		},
		"up": func(f *pflag.FlagSet) {
			f.BoolVar(&s.up, "up", s.up, "start a stack of its own in a temporary folder, and end it afterwards")
		},
		"allow-remote": func(f *pflag.FlagSet) {
			f.BoolVar(&s.allowRemote, "allow-remote", s.allowRemote, "the server may be another machine")
		},
		"json": func(f *pflag.FlagSet) { f.BoolVar(&s.json, "json", s.json, "the report as JSON") },
	}
}

// always are the flags of every scenario.
func always() []string {
	return []string{"queue", "payload-bytes", "core", "tenant", "up", "allow-remote", "json", "jobs", "duration"}
}

const (
	maxSenders  = 4096
	maxJobs     = 50_000_000
	maxDuration = time.Hour
	// maxPayload leaves room for a batch of a thousand in a body of 8 MiB.
	maxPayload = 4096
	maxTenants = 100_000
	maxTypes   = 10_000
	maxKeys    = 1_000_000
)

// check validates what cobra cannot.
func (s *settings) check() error {
	var wrong []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	between := func(flag string, value, least, most int) {
		must(value >= least && value <= most, "--%s %d: must be %d to %d", flag, value, least, most)
	}
	between("concurrency", s.concurrency, 1, maxSenders)
	between("consumers", s.consumers, 1, maxSenders)
	between("batch", s.batch, 1, api.MaxBatchJobs)
	between("claim-batch", s.claimBatch, 1, api.MaxClaim)
	between("types", s.types, 1, maxTypes)
	between("keys", s.keys, 0, maxKeys)
	between("key-max-running", s.keyRunning, 0, maxJobs)
	must(s.keyRunning == 0 || s.keys > 0 && s.core == "", "--key-max-running needs --keys, and is set by the gateway")
	between("items", s.items, 1, hop.MaxItems)
	between("jobs", s.jobs, 0, maxJobs)
	between("tenants", s.tenants, 0, maxTenants)
	between("payload-bytes", s.payload, 0, maxPayload)
	between("lead", s.lead, 1, maxJobs)
	between("slice", s.slice, 0, maxJobs)
	between("claims", s.claims, 1, 1_000_000)
	between("backlog", s.backlog, 1, maxJobs)
	must(s.rate > 0 && s.rate <= 1e6, "--rate %v: must be above 0, and 1000000 at most; --closed is for as fast as can be", s.rate)
	must(s.duration > 0 && s.duration <= maxDuration, "--duration %v: must be above 0s, and %v at most", s.duration, maxDuration)
	must(s.work >= 0 && s.work <= time.Minute, "--work %v: must be 0s to 1m", s.work)
	must(s.queue == "" || api.ValidName(s.queue), "--queue %q: is no queue's name", s.queue)
	must(!s.up || s.core == "", "--up starts a gateway and tells nobody where its core is: not with --core")
	must(s.items == 1 || s.core != "", "--items: only a gateway joins callers' submits; give --core")
	must(s.tenant == "" || s.core != "", "--tenant: the API key says whose jobs they are; give --core")
	return errors.Join(wrong...)
}

// depths are numbers such as 10000, 10k, 5M; rising.
type depths []int

func (*depths) Type() string { return "numbers" }

func (d *depths) String() string {
	texts := make([]string, len(*d))
	for i, n := range *d {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

func (d *depths) Set(text string) error {
	var read depths
	for word := range strings.SplitSeq(text, ",") {
		word, times := strings.TrimSpace(word), 1
		if cut, ok := strings.CutSuffix(word, "k"); ok {
			word, times = cut, 1000
		} else if cut, ok := strings.CutSuffix(word, "M"); ok {
			word, times = cut, 1_000_000
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > maxJobs/times {
			return fmt.Errorf("%q is no number from 1 to %d", word, maxJobs)
		}
		if len(read) > 0 && n*times <= read[len(read)-1] {
			return errors.New("each must be above the one before")
		}
		read = append(read, n*times)
	}
	*d = read
	return nil
}
