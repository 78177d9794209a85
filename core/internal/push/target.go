package push

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// target is the destination of a queue's jobs, ready to be called.
type target struct {
	settings queues.Settings
	url      *url.URL
	// broker is where the jobs are published; nil where the URL is called.
	broker *broker.Target
	signer *standardwebhooks.Webhook
	// previous is the previous secret after a rotation; nil for none.
	previous *standardwebhooks.Webhook
	breaker  *breaker
	// probes is the number of the last probe that was seen, see Executor.Probe. The Executor's lock guards it.
	probes int64
}

// copyEvery is the maximum age of the copy of the queues' settings; a breaker that no queue or webhook has had
// for breakerIdle is deleted, and counts as open no longer.
const (
	copyEvery   = 250 * time.Millisecond
	breakerIdle = 5 * time.Second
)

// copySettings updates the copy of the settings of all queues in push mode, where they have changed. It is a copy, so that
// a claim that asks for the capacity of a queue does not call back into the cache.
func (e *Executor) copySettings(ctx context.Context) {
	if time.Since(e.copied) < copyEvery {
		return
	}
	e.copied = time.Now()
	known, changes := e.engine.Cached.Lanes.PushSettings(e.changesSeen)
	if changes != e.changesSeen {
		e.changesSeen = changes
		named := make(map[tenant.QueueKey]bool, len(known))
		for i := range known {
			named[known[i].QueueKey] = true
			e.targetOf(ctx, &known[i])
		}
		e.forgetTargets(named)
	}
	e.forgetBreakers()
}

// forgetTargets forgets those of queues that are no longer in push mode, and their breakers later.
func (e *Executor) forgetTargets(named map[tenant.QueueKey]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	used := map[*breaker]bool{}
	for key, t := range e.targets {
		if !named[key] {
			delete(e.targets, key)
		} else if t.breaker != nil {
			used[t.breaker] = true
		}
	}
	for _, b := range e.breakers {
		switch {
		case used[b]:
			delete(e.idle, b)
		case e.idle[b].IsZero():
			e.idle[b] = time.Now()
		}
	}
}

// forgetBreakers forgets breakers that no target has had for a while.
func (e *Executor) forgetBreakers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for b, since := range e.idle {
		if b.inFlight > 0 || time.Since(since) < breakerIdle {
			continue
		}
		delete(e.idle, b)
		delete(e.breakers, b.key)
		if b.state() != gobreaker.StateClosed {
			e.metrics.BreakersOpen.Dec()
		}
	}
}

// targetOf gives the target of a queue by its current settings; nil if it cannot be called, which
// is logged once.
func (e *Executor) targetOf(ctx context.Context, settings *queues.Settings) *target {
	e.mu.Lock()
	known, seen := e.targets[settings.QueueKey]
	e.mu.Unlock()
	if seen && known.settings.SameTarget(settings) {
		return known.usable()
	}
	if !settings.Push {
		return nil
	}
	made := &target{settings: *settings}
	if settings.Target.URL != "" {
		if err := e.prepare(ctx, made); err != nil {
			e.log.ErrorContext(ctx, "a queue in push mode cannot be served", "tenant", settings.Tenant, "queue", settings.Name, "error", err)
		}
	}
	e.mu.Lock()
	known, seen = e.targets[settings.QueueKey]
	made.probes = settings.Probes
	if seen {
		made.probes = known.probes
	}
	e.targets[settings.QueueKey] = made
	if made.url != nil {
		made.breaker = e.breakerOf(keyOf(settings, outbound.Destination(made.url)))
		delete(e.idle, made.breaker)
	}
	e.mu.Unlock()
	e.Probe(settings.QueueKey, settings.Probes) // one that was asked of another core
	return made.usable()
}

func (t *target) usable() *target {
	if t.signer == nil {
		return nil
	}
	return t
}

func (e *Executor) prepare(ctx context.Context, made *target) error {
	settings := &made.settings
	if err := e.place(ctx, made); err != nil {
		return err
	}
	secret, stale, err := e.keys.Open(settings.Target.Secret, settings.SecretPlace())
	if err != nil {
		return err
	}
	if made.signer, err = standardwebhooks.NewWebhook(string(secret)); err != nil {
		made.signer = nil
		return seal.ErrOpen // not the library's text, which may contain the secret
	}
	e.openPrevious(ctx, made)
	if stale {
		e.reseal(ctx, settings, settings.Target.Secret, e.keys.Seal(secret, settings.SecretPlace()))
	}
	return nil
}

// place reads where to, and for a broker as whom.
func (e *Executor) place(ctx context.Context, made *target) (err error) {
	settings := &made.settings
	if !api.IsBrokerURL(settings.Target.URL) {
		u, wrong := api.PushURL(settings.Target.URL)
		if wrong != "" {
			return &urlError{wrong}
		}
		made.url = u
		return nil
	}
	read, wrong := api.BrokerURL(settings.Target.URL)
	if wrong != "" {
		return &urlError{wrong}
	}
	if lacks := e.protocols.Lacks(read.URL); lacks != "" {
		return &urlError{lacks}
	}
	made.url, made.broker = read.URL, &broker.Target{Tenant: settings.Tenant, Broker: read}
	if settings.Target.Credentials == nil {
		return nil
	}
	credentials, stale, err := e.keys.Open(settings.Target.Credentials, settings.CredentialsPlace())
	if err != nil {
		return err
	}
	made.broker.User, made.broker.Password, _ = strings.Cut(string(credentials), "\x00")
	if stale {
		e.reseal(ctx, settings, settings.Target.Credentials, e.keys.Seal(credentials, settings.CredentialsPlace()))
	}
	return nil
}

func (e *Executor) reseal(ctx context.Context, settings *queues.Settings, from, to []byte) {
	if err := e.store.Queues.ResealSecret(ctx, settings.Tenant, settings.Name, from, to); err != nil {
		e.log.WarnContext(ctx, "a secret is still sealed with the previous key", "tenant", settings.Tenant, "queue", settings.Name, "error", err)
	}
}

// openPrevious makes the signer of the previous secret after a rotation. Without it calls have one signature.
func (e *Executor) openPrevious(ctx context.Context, made *target) {
	settings := &made.settings
	if settings.Target.Previous == nil {
		return
	}
	secret, _, err := e.keys.Open(settings.Target.Previous, settings.SecretPlace())
	if err == nil {
		made.previous, err = standardwebhooks.NewWebhook(string(secret))
	}
	if err != nil {
		made.previous = nil
		e.log.WarnContext(ctx, "calls are signed with the new secret only", "tenant", settings.Tenant, "queue", settings.Name, "error", seal.ErrOpen)
	}
}

// sign gives the signatures of a message: while a secret is rotated two, separated by a space (Standard
// Webhooks 1.0, "Signature scheme").
func (t *target) sign(id string, now time.Time, body []byte) (string, error) {
	signature, err := t.signer.Sign(id, now, body)
	if err != nil || t.previous == nil || !now.Before(*t.settings.Target.PreviousUntil) {
		return signature, err
	}
	previous, err := t.previous.Sign(id, now, body)
	return signature + " " + previous, err
}

type urlError struct{ wrong string }

func (e *urlError) Error() string { return "push.url: " + e.wrong }

// breakerOf gives a breaker, created if needed. The caller holds the lock.
func (e *Executor) breakerOf(key breakerKey) *breaker {
	b := e.breakers[key]
	if b == nil {
		b = newBreaker(key, e.changed)
		e.breakers[key] = b
	}
	return b
}
