package directory

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// errNoAnswer: no core of the home cell answered.
var errNoAnswer = errors.New("directory: no core of the home cell answers")

// answerTime is how long an answer may take beyond the wait that was asked for.
const answerTime = 5 * time.Second

// Home is the cores of the home cell, which are asked as gateways ask them.
type Home struct {
	base   *url.URL
	secret []byte
	client *http.Client
}

// NewHome reads the URL of the home cell's cores, such as http://core:8081/cells/home.
func NewHome(base string, secret []byte) (*Home, error) {
	parsed, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" || parsed.User != nil {
		return nil, errors.New("must look like http://core:8081/cells/home")
	}
	// No proxy from the environment: it would see the keys.
	return &Home{base: parsed, secret: secret, client: &http.Client{Transport: &http.Transport{IdleConnTimeout: time.Minute}}}, nil
}

// Changes asks for changes, see Directory.Changes.
func (h *Home) Changes(ctx context.Context, asked hop.DirectoryRequest) (hop.DirectoryChanges, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(asked.WaitMS)*time.Millisecond+answerTime)
	defer cancel()
	now := clock.Now()
	for learned := false; ; learned = true {
		status, header, answer, err := h.ask(ctx, asked, now)
		if err != nil {
			return hop.DirectoryChanges{}, fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		if micros, err := strconv.ParseInt(header.Get(identity.TimeHeader), 10, 64); err == nil && status == http.StatusUnauthorized && !learned {
			now = time.UnixMicro(micros) // the clocks differ: once more by the home's
			continue
		}
		if status != http.StatusOK {
			return hop.DirectoryChanges{}, fmt.Errorf("directory: the home cell's core answers %d: %.200s", status, answer)
		}
		var results hop.Results[hop.DirectoryChanges]
		if err := json.Unmarshal(answer, &results); err != nil || len(results.Results) != 1 {
			return hop.DirectoryChanges{}, fmt.Errorf("directory: the home cell's core answers %.200s: %w", answer, err)
		}
		result := results.Results[0]
		if result.Problem != nil {
			return hop.DirectoryChanges{}, fmt.Errorf("directory: the home cell's core refuses: %w", result.Problem)
		}
		if result.Value == nil {
			return hop.DirectoryChanges{}, errors.New("directory: the home cell's core answers without a value")
		}
		return *result.Value, nil
	}
}

// envelope is a call; the nonce makes its signature unique, and core ignores it.
type envelope struct {
	Nonce string                           `json:"nonce"`
	Items []hop.Item[hop.DirectoryRequest] `json:"items"`
}

func (h *Home) ask(ctx context.Context, asked hop.DirectoryRequest, now time.Time) (int, http.Header, []byte, error) {
	body, err := json.Marshal(envelope{rand.Text(), []hop.Item[hop.DirectoryRequest]{{Principal: hop.Principal{Kind: hop.PrincipalOperator}, Request: asked}}})
	if err != nil {
		return 0, nil, nil, err
	}
	path := h.base.Path + hop.ReadDirectory.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base.Scheme+"://"+h.base.Host+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "forgequeue-core")
	request.Header.Set(identity.Header, identity.Sign(h.secret, http.MethodPost, path, body, now))
	response, err := h.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, hop.MaxBody))
	return response.StatusCode, response.Header, answer, err
}
