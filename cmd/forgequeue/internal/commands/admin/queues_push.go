package admin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// pushFlags are the flags of push mode.
type pushFlags struct {
	url, secretFile string
	settle          string
	newSecret       bool
	timeout, open   time.Duration
	calls, halfOpen int
	ratio           float64
}

func (f *pushFlags) flags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.url, "push", "", "URL that core calls with each job, instead of workers that claim, or of a broker (amqps://host/exchange/key, tls://host/subject, kafka+tls://host/topic), or none")
	flags.StringVar(&f.settle, "push-settle", api.SettleConfirm, "what ends a job that is sent to a broker: confirm, its confirm, or worker, a consumer")
	flags.DurationVar(&f.timeout, "push-timeout", api.DefaultPushTimeout, "how long one call may take")
	flags.StringVar(&f.secretFile, "push-secret-file", "", "file with the secret (whsec_…) that signs the calls, - for standard input")
	flags.BoolVar(&f.newSecret, "new-push-secret", false, "make a new secret, and show it once")
	flags.IntVar(&f.calls, "breaker-calls", api.DefaultBreakerCalls, "minimum number of calls before the breaker may open")
	flags.Float64Var(&f.ratio, "breaker-failure-ratio", api.DefaultBreakerFailureRatio, "share of failed calls at which the breaker opens")
	flags.DurationVar(&f.open, "breaker-open", api.DefaultBreakerOpen, "how long it stays open")
	flags.IntVar(&f.halfOpen, "breaker-half-open", api.DefaultBreakerHalfOpen, "calls that then test the destination")
}

// names are those of the flags that need a queue in push mode.
func (f *pushFlags) names() []string {
	return []string{
		"push-timeout", "push-settle", "push-secret-file", "new-push-secret", "breaker-calls", "breaker-failure-ratio", "breaker-open", "breaker-half-open",
	}
}

func (f *pushFlags) apply(command *cobra.Command, request *api.QueueRequest) error {
	if command.Flags().Changed("push") {
		request.Mode, request.Push = nil, nil
		if f.url != none {
			request.Mode, request.Push = new(api.ModePush), f.keep(request)
		}
	}
	push := request.Push
	if push == nil {
		for _, name := range f.names() {
			if command.Flags().Changed(name) {
				return cli.Usage("--%s requires --push URL", name)
			}
		}
		return nil
	}
	if push.Breaker == nil {
		push.Breaker = &api.BreakerSettingsRequest{}
	}
	replace(&push.Settle, cli.Given(command, "push-settle", f.settle))
	replace(&push.TimeoutMS, cli.GivenMS(command, "push-timeout", f.timeout))
	replace(&push.Breaker.Calls, cli.Given(command, "breaker-calls", f.calls))
	replace(&push.Breaker.FailureRatio, cli.Given(command, "breaker-failure-ratio", f.ratio))
	replace(&push.Breaker.OpenMS, cli.GivenMS(command, "breaker-open", f.open))
	replace(&push.Breaker.HalfOpen, cli.Given(command, "breaker-half-open", f.halfOpen))
	push.NewSecret = f.newSecret
	if f.secretFile == "" {
		return nil
	}
	return f.readSecret(command, push)
}

func (f *pushFlags) keep(request *api.QueueRequest) *api.PushRequest {
	kept := api.PushRequest{}
	if request.Push != nil {
		kept = *request.Push
	}
	if kept.URL = f.url; !api.IsBrokerURL(f.url) {
		kept.Settle = nil
	}
	return &kept
}

func (f *pushFlags) readSecret(command *cobra.Command, push *api.PushRequest) error {
	read := func() ([]byte, error) { return os.ReadFile(f.secretFile) }
	if f.secretFile == "-" {
		read = func() ([]byte, error) { return io.ReadAll(io.LimitReader(command.InOrStdin(), 1024)) }
	}
	content, err := read()
	if err == nil {
		content, err = plaintext.Decode(content)
	}
	if err != nil {
		return cli.Usage("--push-secret-file: %v", err)
	}
	push.Secret = new(strings.TrimSpace(string(content)))
	return nil
}

func describePush(t *cli.Table, q api.Queue) {
	push := q.Settings.Push
	if push == nil {
		return
	}
	t.Pair("push", push.URL)
	if push.Settle != nil {
		t.Pair("push settle", *push.Settle)
		t.Pair("push credentials", map[bool]string{true: "set", false: "none"}[push.CredentialsSet])
	}
	t.Pair("push timeout", cli.Milliseconds(push.TimeoutMS))
	if push.Secret != nil {
		t.Pair("push secret", *push.Secret+"  (shown only now)")
	}
	t.Pair("breaker", breakerOf(q.Breaker))
	t.Pair("breaker opens", fmt.Sprintf("when %g %% of %d calls or more have failed, for %s, then %d calls try again",
		100*push.Breaker.FailureRatio, push.Breaker.Calls, cli.Milliseconds(push.Breaker.OpenMS), push.Breaker.HalfOpen))
}

func breakerOf(b *api.Breaker) string {
	switch {
	case b == nil:
		return ""
	case b.RetryAt != nil:
		return fmt.Sprintf("%s, tries again at %s", b.State, b.RetryAt.Format(time.RFC3339))
	}
	return b.State
}

func retryOf(r api.Retry) string {
	grows := map[string]string{api.CurveLinear: "growing by as much", api.CurveConstant: "always"}[r.Curve]
	if grows == "" {
		grows = "doubled"
	}
	return fmt.Sprintf("%s, %s up to %s, ± %g %%", cli.Milliseconds(r.BaseMS), grows, cli.Milliseconds(r.CapMS), 100*r.Jitter)
}
