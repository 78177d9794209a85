package sso_test

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso/ssotest"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// While the provider does not answer a session goes on for five minutes, or until its token ends, with what it may do as of the
// last check, or in a gateway that has not seen it as of its cookie; and no longer.
func TestWithoutTheProvider(t *testing.T) {
	t.Parallel()
	s := newSignOn(t, "readers", "ops")
	s.at.Set(func(state *ssotest.State) { state.Offline, state.Life = true, 3*time.Minute })
	of := s.session()
	second := s.of()
	s.at.Set(func(state *ssotest.State) { state.Status = http.StatusInternalServerError })
	s.pass(time.Minute)
	s.check(s.Provider, of, nil, "read", "manage")
	s.check(second, of, nil, "read", "manage")
	s.pass(3 * time.Minute)
	s.check(s.Provider, of, sso.ErrUnanswered)
	s.check(second, of, sso.ErrUnanswered)
	s.at.Set(func(state *ssotest.State) { state.Status, state.Life = 0, 3*time.Hour })
	s.pass(10 * time.Second)
	checked := s.check(s.Provider, of, nil, "read", "manage")
	of.Person = &checked.Who

	s.at.Set(func(state *ssotest.State) { state.Status = http.StatusTooManyRequests })
	s.pass(4*time.Minute + 30*time.Second)
	third := s.of()
	for _, gateway := range []*sso.Provider{s.Provider, third} {
		if left := s.check(gateway, of, nil, "read", "manage").Due.Sub(s.Now()); left > 30*time.Second {
			t.Errorf("the next check is in %v", left)
		}
	}
	s.pass(30 * time.Second)
	s.check(s.Provider, of, sso.ErrUnanswered)
	s.check(third, of, sso.ErrUnanswered)
	s.check(s.of(), of, sso.ErrUnanswered) // a restart does not begin the five minutes again
	s.at.Set(func(state *ssotest.State) { state.Status = 0 })
	s.pass(10 * time.Second)
	s.check(s.Provider, of, nil, "read", "manage")
}

// What has ended a session is not forgotten when the provider does not answer.
func TestNoAnswerBringsNoSessionBack(t *testing.T) {
	t.Parallel()
	for want, change := range map[error]func(*ssotest.State){
		sso.ErrEnded: func(state *ssotest.State) { clear(state.Tokens) },
		sso.ErrLost:  func(state *ssotest.State) { state.Claims["groups"] = []string{} },
	} {
		s := newSignOn(t, "readers")
		of := s.session()
		s.at.Set(change)
		s.pass(time.Minute)
		s.check(s.Provider, of, want)
		s.at.Set(func(state *ssotest.State) { state.Status = http.StatusBadGateway })
		s.pass(time.Minute)
		s.check(s.Provider, of, want)
	}
}

// through is a transport.
type through func(*http.Request) (*http.Response, error)

func (t through) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// UserInfo refuses by a status, and gives no answer by what is none.
func TestAnswersOfUserInfo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		body   string
		ends   bool
	}{
		{401, "", true},
		{403, "", true},
		{404, "", true},
		{410, "gone", true},
		{408, "", false},
		{429, "", false},
		{500, "", false},
		{200, "<html>", false},
		{200, "404 ", false},
		{200, `{"sub":"1"`, false},
		{200, `["1"]`, false},
	} {
		s := newSignOn(t, "readers")
		of := s.session()
		s.Through(through(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: test.status, Status: strconv.Itoa(test.status) + " " + http.StatusText(test.status), Body: io.NopCloser(strings.NewReader(test.body)),
			}, nil
		}))
		s.pass(time.Minute)
		if test.ends {
			s.check(s.Provider, of, sso.ErrEnded)
			continue
		}
		s.check(s.Provider, of, nil, "read")
		s.pass(4 * time.Minute)
		s.check(s.Provider, of, sso.ErrUnanswered)
	}
}

// A panic in what reads the provider's answers is as no answer, and ends no process.
func TestAPanicIsNoAnswer(t *testing.T) {
	t.Parallel()
	fails := through(func(*http.Request) (*http.Response, error) { panic("of a library") })
	s := newSignOn(t, "readers")
	of := s.session()
	s.pass(time.Minute)
	s.Through(fails)
	s.check(s.Provider, of, nil, "read")
	fresh := s.of()
	fresh.Through(fails)
	s.check(fresh, of, nil, "read")
	_, err := fresh.Begin(t.Context(), session.NewFlow("v", "", s.Now()))
	if refused, known := problem.From(err); !known || refused.Code != problem.CoreUnavailable {
		t.Error(err)
	}
	second := s.of()
	s.broken = true
	s.check(second, of, sso.ErrUnanswered)
}

// A gateway asks the provider about so many sign-ins at the same time; one more is refused, and works later.
func TestExchangesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSignOn(t, "readers")
	waiting, release := make(chan struct{}, 4*sso.MaxExchanges), make(chan struct{})
	s.Through(through(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/token" {
			waiting <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return http.DefaultTransport.RoundTrip(r)
	}))
	finish := func(flow session.Flow, query url.Values) error {
		_, _, err := s.Finish(t.Context(), flow, query)
		return err
	}
	var group sync.WaitGroup
	for range sso.MaxExchanges {
		flow, query := s.begin()
		group.Go(func() {
			if err := finish(flow, query); err != nil {
				t.Error(err)
			}
		})
		<-waiting
	}
	flow, query := s.begin()
	err := finish(flow, query)
	if refused, known := problem.From(err); !known || refused.Code != problem.Overloaded || !strings.Contains(refused.Detail, "Try again") {
		t.Errorf("one more: %v", err)
	}
	close(release)
	group.Wait()
	if err := finish(flow, query); err != nil {
		t.Errorf("later: %v", err)
	}
}
