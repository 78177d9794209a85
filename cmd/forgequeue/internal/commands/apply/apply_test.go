package apply_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// written is a file with a content.
func written(f *commandtest.Fixture, content string) string {
	f.Helper()
	name := filepath.Join(f.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		f.Fatal(err)
	}
	return name
}

const none = "No changes: everything is as in the file."

func TestEachKindWithAllOfItsFieldsIsMadeAndThenDoesNotDiffer(t *testing.T) {
	f := commandtest.New(t).Alone()
	secrets := filepath.Join(t.TempDir(), "secrets")
	content, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	name := written(f, string(content))
	f.Want(5, []string{"+ plan apply-small\n", "+ tenant Apply Shop\n", "+ schedule nightly\n", "nothing was changed"}, "apply", "-f", name, "--dry-run")
	shown := f.Want(0, []string{"20 of 20 objects changed."}, "apply", "-f", name, "--secrets", secrets)
	order := []string{"+ plan", "+ tenant", "+ budget", "+ queue", "+ type", "+ webhook", "+ schedule"}
	if !slices.IsSortedFunc(order, func(a, b string) int { return strings.Index(shown.Out, a) - strings.Index(shown.Out, b) }) {
		t.Errorf("not in order:\n%s", shown.Out)
	}
	f.Want(0, []string{none}, "apply", "-f", name)
	f.Want(0, []string{none}, "apply", "-f", name, "--dry-run", "--prune", "--prune-tenants")

	kept, err := os.ReadFile(secrets)
	info, statErr := os.Stat(secrets)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(err, statErr, info)
	}
	for _, begin := range []string{"webhook billing whsec_", "webhook least whsec_", "queue hooks whsec_", "queue least-push whsec_"} {
		if strings.Count(string(kept), begin) != 1 {
			t.Errorf("no %q in\n%s", begin, kept)
		}
	}
	changed := f.Run("apply", "-f", written(f, strings.NewReplacer(
		"max_running: 20", "max_running: 21", "timeout_ms: 5000", "timeout_ms: 6000", "me:hidden-word@example.com", "me:other-word@example.org", "large: 12345678901234567", "large: 12345678901234568",
		"weight: 3", "weight: 4", "by: user", "by: key", "- urgent", "- urgent2", "\"n\": null, list", "list",
	).Replace(string(content))), "--dry-run")
	for _, line := range []string{
		"~ queue mail: max_running 20 -> 21\n", "~ queue hooks: push.timeout_ms 5000 -> 6000\n", "~ budget openai: by user -> key\n", "~ tenant Apply Shop: weight 3 -> 4\n",
		"~ queue broker: push.url amqps://***@example.com/exchange/key -> amqps://***@example.org/exchange/key\n",
		"~ schedule nightly: job.payload.large 12345678901234567 -> 12345678901234568\n", "~ schedule nightly: job.payload.n null -> none\n",
	} {
		if !strings.Contains(changed.Out, line) {
			t.Errorf("no %q in\n%s", line, changed.Out)
		}
	}
	if all := shown.Out + shown.Err + changed.Out + changed.Err; changed.Code != 5 || strings.Contains(all, "whsec_") || strings.Contains(all, "-word") {
		t.Errorf("a secret is shown, or the code is %d:\n%s", changed.Code, all)
	}
	f.Want(1, []string{":52: budget openai: by: cannot be changed", "0 of 1 objects changed."}, "apply", "-f", written(f, strings.Replace(string(content), "by: user", "by: key", 1)))
}

func TestDriftIsShownAndMended(t *testing.T) {
	f := commandtest.New(t).Alone()
	name := written(f, "label: team\nqueues:\n  q: {max_running: 5}\nschedules:\n  s: {every_ms: 60000, job: {type: t}}\nplans:\n  drifting: {limits: {max_active: 5}}\n")
	f.Must("apply", "-f", name)
	f.Must("queue", "set", "q", "--max-running", "7", "--max-active", "9")
	f.Must("schedule", "pause", "s")
	f.Must("schedule", "set", "s", "--queue", "other")
	f.Must("plan", "set", "drifting", "max_active=none")
	list := commandtest.Decode[struct {
		Items []struct {
			Action, Kind, Name string
			Done               bool
			Fields             []struct {
				Field    string
				From, To any
			}
		}
	}](f, f.Want(5, nil, "apply", "-f", name, "--dry-run", "--json").Out)
	if len(list.Items) != 3 || list.Items[1].Name != "q" || list.Items[1].Action != "change" || list.Items[1].Done || list.Items[1].Fields[0].Field != "max_active" ||
		list.Items[1].Fields[0].From != 9.0 || list.Items[1].Fields[0].To != nil {
		t.Errorf("%+v", list)
	}
	f.Want(0, []string{
		"~ plan drifting: limits.max_active null -> 5\n", "~ queue q: max_active 9 -> none\n", "~ queue q: max_running 7 -> 5\n",
		"~ schedule s: job.queue other -> default\n", "~ schedule s: paused true -> none\n", "3 of 3 objects changed.",
	}, "apply", "-f", name)
	f.Want(0, []string{none}, "apply", "-f", name)
	// The commands that set settings keep the label.
	for _, shown := range []string{
		f.Must("queue", "get", "q", "-o", "json"), f.Must("schedule", "get", "s", "-o", "json"), f.Must("plan", "get", "drifting", "-o", "json"),
	} {
		if !strings.Contains(shown, `"label": "team"`) {
			t.Error(shown)
		}
	}
}

func TestAScheduleGetsTheDefaultsOfTheTypeThatIsThereAlready(t *testing.T) {
	f := commandtest.New(t).Alone()
	f.Must("apply", "-f", written(f, "types:\n  stored: {defaults: {queue: slow, priority: 3, costs: {}, retry: {base_ms: 10}}}\n"))
	name := written(f, "schedules:\n  s: {every_ms: 60000, job: {type: stored, retry: {cap_ms: 20}}}\n  own: {every_ms: 60000, job: {type: stored, queue: fast}}\n")
	f.Want(0, []string{"2 of 2 objects changed."}, "apply", "-f", name)
	f.Want(0, []string{none}, "apply", "-f", name)
	// A default that changes differs, in the file's type too.
	f.Must("apply", "-f", written(f, "types:\n  stored: {defaults: {queue: slower}}\n"))
	f.Want(5, []string{"~ schedule s: job.queue slow -> slower\n", "~ schedule own: job.priority 3 -> none\n"}, "apply", "-f", name, "--dry-run")
}

func TestPruneDeletesWhatHasTheLabelAndIsNotInTheFile(t *testing.T) {
	f := commandtest.New(t).Alone()
	f.Must("queue", "set", "of-nobody")
	all := "label: prune\nbudgets:\n  b: {unit: calls, amount: 1, per_ms: 1000}\nqueues:\n  a: {}\n  full: {}\n  own: {label: other}\ntypes:\n  t: {}\n" +
		"webhooks:\n  w: {url: \"https://example.com\", events: [job.completed]}\nschedules:\n  s: {every_ms: 60000, job: {type: t, queue: a}}\n"
	made := f.Want(0, []string{"secret of webhook w, which is not shown again: whsec_"}, "apply", "-f", written(f, all))
	f.Must("submit", "t", "-q", "full")
	f.Want(2, []string{"--prune needs a label"}, "apply", "-f", written(f, "queues: {}\n"), "--prune")
	f.Want(2, []string{"--prune-tenants needs --prune"}, "apply", "-f", written(f, all), "--prune-tenants")
	f.Want(0, []string{none}, "apply", "-f", written(f, "label: prune\nqueues: {}\n"))
	one := f.Want(0, []string{"- schedule s\n"}, "apply", "-f", written(f, strings.Split(all, "schedules:")[0]), "--prune")
	if strings.Count(one.Out, "\n") != 1 || !strings.Contains(made.Out, "+ schedule s") {
		t.Errorf("%+v", one)
	}
	// A change that is refused leaves everything that is to be deleted.
	f.Want(1, []string{"~ budget b", "- queue a", "Nothing is deleted", "budget b: by: cannot be changed"}, "apply", "-f",
		written(f, "label: prune\nbudgets:\n  b: {unit: calls, amount: 1, per_ms: 1000, by: user}\n"), "--prune")
	rest := f.Want(1, []string{"- webhook w\n- type t\n- queue full\n- queue a\n- budget b\n", "queue full: ", "(queue_not_empty)", "4 of 5 objects changed."},
		"apply", "-f", written(f, "label: prune\n"), "--prune")
	if strings.Contains(rest.Out, "of-nobody") || strings.Contains(rest.Out, "own") {
		t.Errorf("%+v", rest)
	}
	f.Want(0, []string{"full", "of-nobody", "own"}, "queue", "list", "-o", "name")
	f.Want(1, []string{"there is no queue a"}, "queue", "get", "a")
}

func TestPruneDeletesTenantsOnlyWhereThatIsSaid(t *testing.T) {
	f := commandtest.New(t)
	file := "label: tenants\nplans:\n  pruned: {}\ntenants:\n  Pruned: {plan: pruned, overrides: {max_active: 5}}\n"
	f.Must("apply", "-f", written(f, file))
	f.Want(0, []string{none}, "apply", "-f", written(f, file))
	without := written(f, "label: tenants\nplans: {}\ntenants:\n")
	f.Want(5, []string{"tenant Pruned is not in the file and stays: --prune-tenants", "- plan pruned"}, "apply", "-f", without, "--prune", "--dry-run")
	f.Want(1, []string{"- tenant Pruned\n", "plan pruned: A plan cannot be deleted", "1 of 2 objects changed."}, "apply", "-f", without, "--prune", "--prune-tenants")
	// Another tenant may have the name of one that is deleted.
	f.Want(0, []string{"+ tenant Pruned"}, "apply", "-f", written(f, file))
	f.Must("tenant", "create", "Pruned")
	f.Want(1, []string{"tenants", "two of the name Pruned"}, "apply", "-f", written(f, file))
	// Of two of a name that the file does not have, that with its label is not overlooked.
	f.Want(1, []string{"tenants", "two of the name Pruned"}, "apply", "-f", without, "--prune", "--prune-tenants")
	f.Want(0, []string{none}, "apply", "-f", without)
}

func TestAFileOfTheTenantNeedsNoOperatorsKey(t *testing.T) {
	f := commandtest.New(t).Alone().With("FORGEQUEUE_OPERATOR_KEY", "")
	file := "queues:\n  q:\n    types:\n      a.b: {max_running: 5}\n"
	r := f.RunWith(t.Context(), file, "apply", "-f", "-", "-o", "json")
	list := commandtest.Decode[api.Page[struct {
		Name string
		Done bool
	}]](f, r.Out)
	if r.Code != 0 || len(list.Items) != 1 || !list.Items[0].Done {
		t.Errorf("%+v", r)
	}
	f.Want(3, []string{"FORGEQUEUE_OPERATOR_KEY"}, "apply", "-f", written(f, file+"plans:\n"), "--prune=false")
	f.Want(2, []string{"say which file"}, "apply")
	f.Want(2, []string{"no such file"}, "apply", "-f", "absent.yaml")
	// The API's own refusals name the place too.
	f.Want(1, []string{":4: schedule s: cron: ", "(invalid_request)", "1 of 2 objects changed."}, "apply", "-f",
		written(f, "queues:\n  r:\nschedules:\n  s: {cron: 99 * * * *, job: {type: t}}\n"))
	f.With("FORGEQUEUE_URL", "http://127.0.0.1:1").Want(3, []string{"127.0.0.1:1"}, "apply", "-f", written(f, file), "--dry-run")
}
