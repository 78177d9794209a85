package api

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Rule is what one field of a request may hold. A zero member is no bound.
type Rule struct {
	// Min and Max bound a number; Above says that Min itself is not allowed.
	Min, Max float64
	Above    bool
	// Pattern and the lengths, in characters, bound a string.
	Pattern              string
	MinLength, MaxLength int
	// Words are all values that a string may have.
	Words []string
	// MinItems and MaxItems bound the entries of a list or a map, Each bounds each of them.
	MinItems, MaxItems int
	Each               *Rule
}

// Rules gives the rules of the requests, by type and field: the API's document shows them. They are the lines of the
// methods named rules, which Validate enforces. What depends on two fields, on the time, or on a size in bytes is
// enforced only.
func Rules() map[string]map[string]Rule {
	all := map[string]map[string]Rule{}
	for _, one := range []ruled{
		&SubmitRequest{}, &JobPatch{}, &Dedupe{}, &BulkRequest{}, &BulkFilter{}, &BulkTarget{}, &RetryRequest{}, &Dependency{}, &BatchRequest{},
		&WorkflowRequest{}, &WorkflowJobsRequest{}, &WorkflowJobRequest{}, &WorkflowDependency{},
		&ClaimRequest{}, &WorkerRequest{}, &HeartbeatRequest{}, &Lease{}, &Progress{}, &OutcomesRequest{}, &OutcomeRequest{},
		&QueueRequest{}, &TypeLimit{}, &KeySettingsRequest{}, &BudgetRequest{}, &Throttle{}, &PushRequest{}, &BreakerSettingsRequest{},
		&DeadLetterRequest{}, &DeadLetterFilterBody{}, &CanaryRequest{},
		&ScheduleRequest{}, &ScheduleJob{}, &JobTypeRequest{}, &JobTypeDefaults{}, &WebhookRequest{}, &WebhookFilter{}, &Thresholds{}, &Window{},
		&TenantRequest{}, &TenantPatch{}, &PlanRequest{}, &Limits{}, &KeyRequest{},
		&SignalRequest{}, &OutcomeSignal{}, &SignalLinkRequest{}, &LinkedSignalRequest{},
		&OutputRequest{}, &OutputChunk{},
	} {
		r := refusals{report: &report{rules: map[string]Rule{}}}
		one.rules(r)
		all[reflect.TypeOf(one).Elem().Name()] = r.rules
	}
	for _, kind := range []string{"CompleteRequest", "FailRequest", "SnoozeRequest", "WaitRequest", "ReleaseRequest"} {
		all[kind] = all["OutcomeRequest"] // which they become
	}
	return all
}

// ruled is a request, or a part of one. Its rules are a line for each field.
type ruled interface{ rules(r refusals) }

// validate tells which fields cannot be accepted.
func validate(one ruled, prefix string, now time.Time) []problem.FieldError {
	r := refusals{prefix, &report{now: now}}
	one.rules(r)
	return r.fields
}

// refusals collects the fields that a request got wrong. Where rules is not nil, it collects their rules, of a zero
// request.
type refusals struct {
	prefix string
	*report
}

type report struct {
	now    time.Time
	fields []problem.FieldError
	rules  map[string]Rule
}

// in is for the fields of a part, such as "retry.".
func (r refusals) in(part string) refusals { return refusals{r.prefix + part, r.report} }

// add makes the text of a field for one that is refused only: gateway and core validate each job.
func (r refusals) add(field, format string, args ...any) {
	r.fields = append(r.fields, problem.FieldError{Field: r.prefix + field, Message: fmt.Sprintf(format, args...)})
}

// check is for what is no rule of one field.
func (r refusals) check(ok bool, field, format string, args ...any) {
	if !ok {
		r.add(field, format, args...)
	}
}

// rule is what a field may hold.
func (r refusals) rule(field string, rule Rule) {
	if r.rules != nil {
		r.rules[field] = rule
	}
}

// whole is for a whole number that may be absent.
func whole[T int | int64](r refusals, field string, value *T, low, high int64) {
	if r.rules != nil {
		r.rules[field] = Rule{Min: float64(low), Max: float64(high)}
	}
	if value != nil && (int64(*value) < low || int64(*value) > high) {
		r.add(field, "must be between %d and %d", low, high)
	}
}

// millis is whole for a duration.
func (r refusals) millis(field string, value *int64, low, high time.Duration) {
	whole(r, field, value, low.Milliseconds(), high.Milliseconds())
}

// number is for a number that may be absent. NaN is never between.
func (r refusals) number(field string, value *float64, low, high float64) {
	r.rule(field, Rule{Min: low, Max: high})
	if value != nil && (!(*value >= low) || *value > high) {
		r.add(field, "must be between %s and %s", decimal(low), decimal(high))
	}
}

// above is number for what may come near to zero, and not be it; hint ends the sentence.
func (r refusals) above(field string, value *float64, high float64, hint string) {
	r.rule(field, Rule{Max: high, Above: true})
	if value != nil && (!(*value > 0) || *value > high) {
		r.add(field, "must be above 0 and at most %s%s", decimal(high), hint)
	}
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// items is for the number of entries of a list or a map; hint ends the sentence.
func (r refusals) items(field string, n, low, high int, hint string) {
	if r.rules != nil {
		r.rules[field] = Rule{MinItems: low, MaxItems: high}
	}
	switch {
	case n >= low && n <= high:
	case low == 0:
		r.add(field, "must have at most %d entries%s", high, hint)
	default:
		r.add(field, "must have %d to %d entries%s", low, high, hint)
	}
}

// names is items for a list of names.
func (r refusals) names(field string, names []string, low, high int, hint string) {
	r.items(field, len(names), low, high, hint)
	r.rule(field, Rule{MinItems: low, MaxItems: high, Each: &nameText.Rule})
	for i, name := range names {
		if !ValidName(name) {
			r.add(fmt.Sprintf("%s[%d]", field, i), NameRule)
		}
	}
}

func (r refusals) metadata(metadata map[string]string) {
	if r.rules != nil { // not r.rule, for which each submit would make the inner one
		r.rules["metadata"] = Rule{MaxItems: MaxMetadata, Each: &Rule{MaxLength: MaxMetadataValue}}
	}
	if len(metadata) == 0 {
		return
	}
	r.check(len(metadata) <= MaxMetadata, "metadata", "must have at most %d entries", MaxMetadata)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[key]
		if !ValidName(key) {
			r.add("metadata", "the key %q %s", key, NameRule)
		}
		if len(value) > MaxMetadataValue {
			r.add("metadata."+key, "must be at most %d bytes", MaxMetadataValue)
		}
		if strings.ContainsRune(value, 0) {
			r.add("metadata."+key, "must not contain NUL characters")
		}
	}
}

// words is for one of some words that may be absent.
func (r refusals) words(field string, value *string, words []string) {
	r.rule(field, Rule{Words: words})
	if value != nil && !slices.Contains(words, *value) {
		last := len(words) - 1
		r.add(field, "must be %s or %s", strings.Join(words[:last], ", "), words[last])
	}
}

// text is for a string that may be absent.
func (r refusals) text(field string, value *string, of *textRule) {
	if r.rules != nil {
		r.rules[field] = of.Rule
	}
	if value != nil && !of.valid(*value) {
		r.add(field, "%s", of.says)
	}
}

// orNil is for a string whose "" stands for an absent one.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

const (
	maxWeight = 1000
	// maxCount bounds caps and bursts, maxRate what happens in a second.
	maxCount = 1e9
	maxRate  = 1e6
)

// textRule is a rule of strings, how it is checked, and how it is said.
type textRule struct {
	Rule

	valid func(string) bool
	says  string
}

// What is said of a text that is no name, or no label.
const (
	NameRule  = "must be 1 to 128 of A-Z a-z 0-9 . _ : - and start with a letter or digit"
	LabelRule = "must be 1 to 128 printable ASCII characters"

	objectLabelRule = "must be 1 to 64 of A-Z a-z 0-9 . _ : - and start with a letter or digit"
)

// The rules of strings.
var (
	nameText  = textRule{Rule{Pattern: `^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`}, ValidName, NameRule}
	labelText = textRule{Rule{Pattern: `^[ -~]{1,128}$`}, ValidLabel, LabelRule}
	// objectLabelText is for the labels of queues, schedules and so on; with noObjectLabelText "" removes one.
	objectLabelText   = textRule{Rule{Pattern: `^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`}, ValidObjectLabel, objectLabelRule}
	noObjectLabelText = textRule{
		Rule{Pattern: `^([A-Za-z0-9][A-Za-z0-9._:-]{0,63})?$`},
		func(s string) bool { return s == "" || ValidObjectLabel(s) }, objectLabelRule + ", or be empty for none",
	}
	// queueText is for a queue to read, which may be one of the system.
	queueText  = textRule{Rule{Pattern: `^(_webhook\.)?[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`}, ValidQueueToRead, NameRule}
	titleText  = textRule{Rule{Pattern: `^[^\x00-\x1f\x7f]*$`, MinLength: 1, MaxLength: 128}, validTitle, "must be 1 to 128 characters without control characters"}
	outputText = textRule{
		Rule{MaxLength: MaxOutputChunk},
		func(s string) bool { return len(s) <= MaxOutputChunk && !strings.ContainsRune(s, 0) },
		fmt.Sprintf("must be at most %d bytes, without NUL characters", MaxOutputChunk),
	}
	linkTitleText   = textRule{Rule{Pattern: `^[^\x00-\x1f\x7f]*$`, MaxLength: 200}, func(s string) bool { return isTitle(s, 200) }, "must be at most 200 characters without control characters"}
	givenText       = textRule{Rule{MinLength: 1}, func(s string) bool { return s != "" }, "is required"}
	descriptionText = textRule{
		Rule{MaxLength: MaxTypeDescription},
		func(s string) bool { return len(s) <= MaxTypeDescription && !strings.ContainsRune(s, 0) },
		fmt.Sprintf("must be at most %d bytes, without NUL characters", MaxTypeDescription),
	}
	progressText = textRule{
		Rule{MaxLength: MaxProgressMessage},
		func(s string) bool { return utf8.RuneCountInString(s) <= MaxProgressMessage },
		fmt.Sprintf("must have at most %d characters", MaxProgressMessage),
	}
	reasonText = textRule{
		Rule{Words: reasonWords}, func(s string) bool { return slices.Contains(reasonWords, s) }, "must be one of " + strings.Join(reasonWords, ", "),
	}
	fingerprintText = textRule{Rule{Pattern: `^[0-9A-Fa-f]{1,64}$`}, ValidFingerprint, "must be 1 to 64 hexadecimal digits"}
	cronText        = textRule{
		Rule{Pattern: `^[ -~]*$`, MinLength: 1, MaxLength: maxCron},
		func(s string) bool { return printable(s, maxCron) }, fmt.Sprintf("must be 1 to %d printable ASCII characters", maxCron),
	}
	timezoneText = textRule{
		Rule{Pattern: `^[ -~]*$`, MinLength: 1, MaxLength: maxTimezone},
		func(s string) bool { return printable(s, maxTimezone) }, "must be a name such as Europe/Berlin",
	}
	secretText = textRule{
		Rule{Pattern: `^whsec_[A-Za-z0-9+/]+={0,2}$`},
		ValidPushSecret,
		fmt.Sprintf("must be %s and %d to %d bytes in base64", PushSecretPrefix, minPushSecret, maxPushSecret),
	}
)

// urlRule is as much of a destination's URL as a schema can say.
var urlRule = Rule{Pattern: `^[!-~]*$`, MinLength: 1, MaxLength: MaxPushURL}

// The closed sets of words of requests. They are variables, because a list built for each submit would cost it.
var (
	curveWords   = []string{CurveExponential, CurveLinear, CurveConstant}
	onLiveWords  = []string{OnLiveKeep, OnLiveReplace, OnLiveExtend, OnLiveFail}
	bulkWords    = []string{BulkCancel, BulkMove, BulkSetPriority, BulkRunNow, BulkDelay, BulkRerun, BulkDelete}
	liveStates   = []string{StateBlocked, StateScheduled, StateWaiting, StateQueued, StateRunning}
	endedStates  = []string{StateCompleted, StateDeadLetter, StateCancelled}
	policyWords  = []string{OnFailedCancel, OnFailedRun, OnFailedHold}
	kindWords    = []string{KindComplete, KindFail, KindSnooze, KindRelease, KindWait}
	streamWords  = []string{OutputOut, OutputErr, OutputLog}
	waitWords    = []string{WaitAny, WaitAll}
	modeWords    = []string{ModePull, ModePush}
	settleWords  = []string{SettleConfirm, SettleWorker}
	overlapWords = []string{OverlapAllow, OverlapSkip, OverlapCancel}
	catchUpWords = []string{CatchUpNone, CatchUpLatest, CatchUpAll}
	reasonWords  = []string{ReasonExhausted, ReasonPermanent, ReasonWorkerLost, ReasonDeadline}
	eventWords   = []string{
		EventJobCompleted, EventJobDeadLetter, EventJobCancelled, EventJobWaiting, EventWorkflowEnded, EventBudgetClosed,
		EventQueueStalled, EventQueueUnserved, EventQueueRecovered, EventBreakerOpened, EventBreakerClosed, EventCapFull, EventScheduleMissed, EventWebhookFailing,
	}
)
