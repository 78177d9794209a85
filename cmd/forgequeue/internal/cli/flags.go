package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// given is a flag's value if the flag was given, else nil: "not said".
func given[T any](command *cobra.Command, flag string, value T) *T {
	if !command.Flags().Changed(flag) {
		return nil
	}
	return &value
}

func givenMS(command *cobra.Command, flag string, value time.Duration) *int64 {
	return given(command, flag, value.Milliseconds())
}

// instant is the value of a flag that takes a time: RFC 3339, or a duration from
// this machine's present time, ahead or back.
type instant struct {
	at   *api.Time
	back bool
}

func (*instant) Type() string { return "time" }

func (i *instant) String() string {
	if i.at == nil {
		return ""
	}
	return i.at.UTC().Format(time.RFC3339Nano)
}

func (i *instant) Set(text string) error {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		i.at = &api.Time{Time: at}
		return nil
	}
	distance, err := time.ParseDuration(text)
	if err != nil || distance < 0 {
		return fmt.Errorf("must be a time such as 2026-11-20T12:00:00Z, or a duration such as 90m")
	}
	if i.back {
		distance = -distance
	}
	i.at = &api.Time{Time: time.Now().Add(distance)}
	return nil
}

// pairs reads name=value arguments; nil for none.
func pairs(flag string, texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil //nolint:nilnil // no metadata is no error
	}
	read := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage("--%s %q: must be NAME=VALUE", flag, text)
		}
		read[name] = value
	}
	return read, nil
}

// paging is how much of a list to show.
type paging struct {
	limit int
	token string
}

func (p *paging) flags(command *cobra.Command) {
	command.Flags().IntVar(&p.limit, "limit", api.DefaultPageSize, "how many to show at most; 0 for all")
	command.Flags().StringVar(&p.token, "page-token", "", "go on where a list before ended")
}

// collect reads pages until the limit is reached or the list ends. A page may be
// short, or empty, while others follow.
func collect[T any](p paging, read func(client.PageRequest) (api.Page[T], error)) (api.Page[T], error) {
	all := api.Page[T]{Items: []T{}}
	if p.limit < 0 {
		return all, usage("--limit %d: must not be negative", p.limit)
	}
	next := p.token
	for {
		size := api.MaxPageSize
		if p.limit > 0 {
			size = min(size, p.limit-len(all.Items))
		}
		page, err := read(client.PageRequest{Size: size, Token: next})
		if err != nil {
			return all, err
		}
		all.Items, all.NextPageToken = append(all.Items, page.Items...), page.NextPageToken
		if page.NextPageToken == nil || p.limit > 0 && len(all.Items) >= p.limit {
			return all, nil
		}
		next = *page.NextPageToken
	}
}

// showPage writes a list, and how to see more of it.
func showPage[T any](s *session, page api.Page[T], fill func(*table)) error {
	if err := s.show(page, fill); err != nil {
		return err
	}
	if !s.json && page.NextPageToken != nil {
		s.note("There is more: --limit 0 shows all, --page-token %s goes on.", *page.NextPageToken)
	}
	return nil
}
