package api

// What becomes of a submit whose dedupe key a live job has.
const (
	// OnLiveKeep: the live job stays as it is, and is the answer.
	OnLiveKeep = "keep"
	// OnLiveReplace: a live job that waits gets the new content; one that runs gets a follower, which starts when it has ended.
	OnLiveReplace = "replace"
	// OnLiveExtend is OnLiveReplace, and the job waits for its delay_ms again.
	OnLiveExtend = "extend"
	// OnLiveFail: the submit is refused.
	OnLiveFail = "fail"
)

// Dedupe is a key that is unique among live jobs, and what becomes of a second submit with it.
type Dedupe struct {
	// Key is 1 to 128 printable ASCII characters.
	Key string `json:"key"`
	// OnLive is keep, if absent.
	OnLive string `json:"on_live,omitzero" enums:"keep,replace,extend,fail"`
	// MaxDelayMS bounds what extend adds up to: the job starts at the latest so long after it was first submitted, in milliseconds.
	MaxDelayMS *int64 `json:"max_delay_ms,omitzero"`
}

func (d *Dedupe) rules(r refusals) {
	r.text("key", &d.Key, &labelText)
	r.words("on_live", orNil(d.OnLive), onLiveWords)
	r.millis("max_delay_ms", d.MaxDelayMS, 0, MaxDelay)
	r.check(d.MaxDelayMS == nil || d.OnLive == OnLiveExtend, "max_delay_ms", "needs on_live extend")
}

// dedupe refuses what does not go with a Dedupe.
func (s *SubmitRequest) dedupe(r refusals) {
	if s.Dedupe == nil {
		return
	}
	s.Dedupe.rules(r.in("dedupe."))
	r.check(s.DedupeKey == nil, "dedupe_key", "cannot be combined with dedupe; use one of them")
}

// Replaces says that the submit replaces a live job; nil does not.
func (d *Dedupe) Replaces() bool {
	return d != nil && (d.OnLive == OnLiveReplace || d.OnLive == OnLiveExtend)
}

// DedupeKeyOf is the job's dedupe key; nil for none.
func (s *SubmitRequest) DedupeKeyOf() *string {
	if s.Dedupe != nil {
		return &s.Dedupe.Key
	}
	return s.DedupeKey
}
