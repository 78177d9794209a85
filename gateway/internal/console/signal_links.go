package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// maxComment bounds what the reader of a link may write, in characters.
const maxComment = 2000

// signalLinkPage is the page of a link that sends a signal.
type signalLinkPage struct {
	// Heading is what the link asks, or why it cannot.
	Heading string
	// Link is empty where it is not known.
	Link api.LinkedSignal
	// Asks: there is a form, and Comment is in it.
	Asks    bool
	Comment string
	Longest int
	// Said is what has been done, Refused what has not; one of them at most.
	Said, Refused string
	RetryAfterMS  *int64
}

// showSignalLink says what a link would send. It changes nothing: much that reads links is no person.
func showSignalLink(v *visit.Visit) (visit.Page, error) {
	link, err := readSignalLink(v)
	if err != nil {
		return refusedSignalLink(signalLinkPage{}, err)
	}
	return signalLinkPage{Link: link, Asks: true}.as(http.StatusOK), nil
}

// useSignalLink sends a link's signal. Sent again it changes nothing: the first signal of a name stays.
func useSignalLink(v *visit.Visit) (visit.Page, error) {
	link, err := readSignalLink(v)
	page := signalLinkPage{Link: link}
	var request api.LinkedSignalRequest
	if err == nil {
		page.Comment, request, err = readComment(v)
	}
	var sent api.Signal
	if err == nil {
		err = v.Ask(http.MethodPost, signalLinkPath(v), request, &sent)
	}
	if err != nil {
		return refusedSignalLink(page, err)
	}
	page.Said = "Sent."
	if !sent.First {
		page.Said = "This was answered before: nothing has changed."
	}
	return page.as(http.StatusOK), nil
}

// signalLinkPath is the link's in the API.
func signalLinkPath(v *visit.Visit) string {
	return "/v1/signal-links/" + url.PathEscape(v.Request.PathValue("token"))
}

func readSignalLink(v *visit.Visit) (link api.LinkedSignal, err error) {
	err = v.Ask(http.MethodGet, signalLinkPath(v), nil, &link)
	return link, err
}

// readComment reads the form: the signal's data is what was written, and none where nothing was.
func readComment(v *visit.Visit) (comment string, request api.LinkedSignalRequest, err error) {
	media, _, _ := mime.ParseMediaType(v.Request.Header.Get("Content-Type"))
	if v.Request.ContentLength != 0 && media != "application/x-www-form-urlencoded" {
		return "", request, problem.New(problem.InvalidRequest, "This page takes a form, with the field comment. JSON is for POST /v1/signal-links/TOKEN.")
	}
	if err := v.ReadForm(); err != nil {
		return "", request, err
	}
	comment = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(v.Form.Get("comment"), "\r\n", "\n"), "\uFFFD"))
	if utf8.RuneCountInString(comment) > maxComment {
		return comment, request, problem.New(problem.InvalidRequest, fmt.Sprintf("The comment is longer than %d characters.", maxComment))
	}
	if comment != "" {
		request.Data, err = json.Marshal(struct {
			Comment string `json:"comment"`
		}{comment})
	}
	return comment, request, err
}

// refusedSignalLink says in the page itself why a link does nothing: who reads it has no key, and cannot sign in.
func refusedSignalLink(page signalLinkPage, err error) (visit.Page, error) {
	refused, known := problem.From(err)
	if !known {
		return visit.Page{}, err
	}
	page.Refused, page.RetryAfterMS = refused.Detail, refused.RetryAfterMS
	status := refused.Status
	switch refused.Code {
	case problem.Unauthenticated:
		status, page.Heading = http.StatusGone, "This link is not valid"
		page.Refused = "It has expired, was not copied whole, or the key that made it was revoked. Ask for a new link."
	case problem.JobTerminal:
		page.Refused = "The job has ended. Nothing was sent."
	case problem.NotFound:
		page.Refused = "There is no such job any more. Nothing was sent."
	case problem.Forbidden:
		page.Refused = "The key that made this link may not send signals. Ask for a new link."
	default: // another time it may do it
		page.Asks = page.Link.Name != ""
	}
	return page.as(status), nil
}

func (p signalLinkPage) as(status int) visit.Page {
	p.Heading, p.Longest = cmp.Or(p.Heading, p.Link.Title, "This link cannot be read now"), maxComment
	return visit.Page{Template: "signal_link", Title: p.Heading, Status: status, Data: p}
}
