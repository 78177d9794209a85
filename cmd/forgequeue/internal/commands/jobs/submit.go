package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// submission is the flags of submit.
type submission struct {
	data, queue, user            string
	dedupe, onLive               string
	file, idempotency, key       string
	keyWeight                    float64
	priority, attempts, batch    int
	delay, timeout, waitTimeout  time.Duration
	maxWait, maxDelay, expires   time.Duration
	runAt, deadline              cli.Instant
	tags, metadata, after, costs []string
	wait                         bool
}

func newSubmit(a *cli.App) *cobra.Command {
	var f submission
	command := &cobra.Command{
		Use:   "submit TYPE",
		Short: "Submit a job, or the jobs of a file; with --wait, wait until it ends",
		Long: `Submit a job of a type. Its payload is JSON, @FILE with JSON in it, or - for standard input.

With --wait the job is followed to its end: exit code 0 when it completed, 1 when it became a dead letter
or was cancelled, 4 when --wait-timeout passed first (the job keeps running).

With --file each line of a file is a job, in the shape of POST /v1/jobs; - is standard input. All lines are checked
before the first is sent. They are sent in batches of --batch; what a rate or a cap refuses is sent again when there is
room. The same file with the same --idempotency-key resumes a run that was stopped, and stores nothing twice; the run that
was stopped has shown the key. -o jsonl shows the id of each line's job.`,
		Example: `  forgequeue submit hash.sha256 --data '{"text":"hello"}' --wait
  forgequeue submit report --data @order.json --queue nightly --delay 2h --idempotency-key order-17
  forgequeue submit report.send --after 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --after 0199f0a4-7c1e-7000-8000-5d2c6f1e9a11:run
  forgequeue submit index.rebuild --dedupe-key index --on-live extend --delay 5s --max-delay 1m
  echo '{"to":"ada"}' | forgequeue submit mail --data - --priority 9 --tag gpu --metadata shop=berlin
  forgequeue submit --file jobs.jsonl --idempotency-key import-17`,
		Args: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("file") {
				return checkFileFlags(command, args, f.batch)
			}
			return cli.One("--data JSON")(command, args)
		},
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			if s.Command.Flags().Changed("file") {
				return submitFile(ctx, s, &f)
			}
			return submit(ctx, s, args[0], &f)
		}),
	}
	flags := command.Flags()
	flags.StringVarP(&f.data, "data", "d", "", "payload: JSON, @FILE or - for standard input (default null)")
	flags.StringVarP(&f.file, "file", "f", "", "a file of jobs, one JSON object on each line; - for standard input")
	flags.IntVar(&f.batch, "batch", api.MaxBatchJobs, "with --file: jobs in one request")
	flags.StringVarP(&f.queue, "queue", "q", "", "queue (default \""+api.DefaultQueue+"\")")
	flags.IntVar(&f.priority, "priority", api.DefaultPriority, "0 to 9, higher first")
	flags.DurationVar(&f.delay, "delay", 0, "start no sooner than after this long, such as 90s")
	flags.DurationVar(&f.maxWait, "max-wait", 0, "refuse the job if its turn is likely to come later than after this long")
	flags.Var(&f.runAt, "run-at", "start no sooner than at this time, or after this long")
	flags.Var(&f.deadline, "deadline", "becomes a dead letter if it has not ended by this time, or within this long")
	flags.DurationVar(&f.expires, "expires-after", 0, "the same as --deadline, counted from when the server stores the job, such as 1h")
	flags.StringVar(&f.idempotency, "idempotency-key", "", "Idempotency-Key: the same key and job again get the first answer again")
	f.deduping(command)
	flags.StringVar(&f.user, "user", "", "your own end user for whom the job runs")
	flags.StringVar(&f.key, "key", "", "whose turn the job takes in its queue, such as a customer or an account; the user if not given")
	flags.Float64Var(&f.keyWeight, "key-weight", 1, "share of the key in the turns, 0.1 to 100")
	flags.StringArrayVar(&f.costs, "cost", nil, "BUDGET=N: how much of a budget an attempt may use; repeatable")
	flags.StringArrayVar(&f.tags, "tag", nil, "what a worker must have to be given the job; repeatable")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "NAME=VALUE, carried along; repeatable")
	flags.IntVar(&f.attempts, "max-attempts", api.DefaultMaxAttempts, "executions that may be spent on it; the queue's setting if not given")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time for one execution")
	flags.StringArrayVar(&f.after, "after", nil, "ID or ID:POLICY of a job that must have ended before; POLICY says what its failure means: cancel (default), run or \"hold\"; repeatable")
	f.waiting(flags)
	return command
}

// deduping adds the flags about live jobs with the same key.
func (f *submission) deduping(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.dedupe, "dedupe-key", "", "answer with the live job that has the same key, if there is one")
	flags.StringVar(&f.onLive, "on-live", "", "what becomes of that live job: keep (default), replace, extend (also wait for --delay again) or fail (refuse this one)")
	flags.DurationVar(&f.maxDelay, "max-delay", 0, "with --on-live extend: start at the latest so long after the first submit")
	_ = command.RegisterFlagCompletionFunc("on-live", cobra.FixedCompletions([]cobra.Completion{
		api.OnLiveKeep, api.OnLiveReplace, api.OnLiveExtend, api.OnLiveFail,
	}, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
}

func (f *submission) waiting(flags *pflag.FlagSet) {
	flags.BoolVar(&f.wait, "wait", false, "wait for the job's end; the exit code is its outcome")
	flags.DurationVar(&f.waitTimeout, "wait-timeout", 0, "wait for at most this long (default: without end)")
}

func submit(ctx context.Context, s *cli.Session, jobType string, f *submission) error {
	request, err := f.request(s, jobType)
	if err != nil {
		return err
	}
	return f.send(ctx, s, func(options ...client.CallOption) (api.SubmitResponse, error) {
		return s.Client.Submit(ctx, request, options...)
	})
}

// send submits with the options of the flags, and shows the job, or follows it to its end.
func (f *submission) send(ctx context.Context, s *cli.Session, call func(...client.CallOption) (api.SubmitResponse, error)) error {
	var options []client.CallOption
	var replayed bool
	if s.Command.Flags().Changed("idempotency-key") {
		if f.idempotency == "" {
			return cli.Usage("--idempotency-key is empty")
		}
		options = append(options, client.WithIdempotencyKey(f.idempotency), client.WithReplayed(&replayed))
	}
	submitted, err := call(options...)
	if err != nil {
		return err
	}
	for _, warning := range submitted.Warnings {
		s.Note("warning: %s", warning)
	}
	if replayed {
		s.Note("This key was used before; this is the first answer again: %s.", submitted.ID)
	}
	if submitted.Deduplicated {
		s.Note("A live job with this dedupe key was there already: %s.", submitted.ID)
	}
	if submitted.Replaced {
		s.Note("The live job with this dedupe key was replaced: %s.", submitted.ID)
	}
	if !f.wait && f.waitTimeout == 0 {
		return s.Show(submitted, func(t *cli.Table) { summaries(t, []api.JobSummary{submitted.JobSummary}) })
	}
	job, err := await(ctx, s, submitted.ID, f.waitTimeout, newSpinner(s, submitted.ID))
	if cli.IsTimedOut(err) && len(submitted.Warnings) > 0 {
		return cli.TimedOut(fmt.Errorf("%w\n  %s", err, strings.Join(submitted.Warnings, "\n  ")))
	}
	if err != nil {
		return err
	}
	if err := s.Show(job, func(t *cli.Table) { describe(t, job) }); err != nil {
		return err
	}
	return outcome(job)
}

func (f *submission) request(s *cli.Session, jobType string) (api.SubmitRequest, error) {
	command := s.Command
	request := api.SubmitRequest{
		Type: jobType, Queue: f.queue, Priority: cli.Given(command, "priority", f.priority),
		RunAt: f.runAt.At, DelayMS: cli.GivenMS(command, "delay", f.delay), Deadline: f.deadline.At, ExpiresAfterMS: cli.GivenMS(command, "expires-after", f.expires),
		MaxAttempts: cli.Given(command, "max-attempts", f.attempts), TimeoutMS: cli.GivenMS(command, "timeout", f.timeout), MaxWaitMS: cli.GivenMS(command, "max-wait", f.maxWait),
		Tags: f.tags, User: cli.Given(command, "user", f.user), DedupeKey: cli.Given(command, "dedupe-key", f.dedupe),
		Key: cli.Given(command, "key", f.key), KeyWeight: cli.Given(command, "key-weight", f.keyWeight),
	}
	for _, one := range f.after {
		id, policy, _ := strings.Cut(one, ":")
		request.After = append(request.After, api.Dependency{JobID: id, OnFailed: policy})
	}
	err := f.dedupeTo(command, &request)
	if err != nil {
		return request, err
	}
	if request.Costs, err = cli.Amounts("cost", f.costs); err != nil {
		return request, err
	}
	if request.Metadata, err = pairs(f.metadata); err != nil {
		return request, err
	}
	if command.Flags().Changed("data") {
		request.Payload, err = readJSON("data", f.data, s.In, api.MaxPayload)
	}
	return request, err
}

// dedupeTo says what becomes of a live job, where the flags do.
func (f *submission) dedupeTo(command *cobra.Command, request *api.SubmitRequest) error {
	given := command.Flags().Changed
	if !given("on-live") && !given("max-delay") {
		return nil
	}
	if request.DedupeKey == nil {
		return cli.Usage("--on-live and --max-delay need --dedupe-key")
	}
	request.Dedupe = &api.Dedupe{Key: f.dedupe, OnLive: f.onLive, MaxDelayMS: cli.GivenMS(command, "max-delay", f.maxDelay)}
	request.DedupeKey = nil
	return nil
}
