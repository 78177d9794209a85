package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// listing is what a page token belongs to. With another list, tenant, user or filter the
// place in it would mean something else, or tell of what the caller may not see.
type listing struct {
	List   string `json:"list"`
	Kind   string `json:"kind"`
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	Filter any    `json:"filter"`
}

func listingOf(list string, p api.Principal, filter any) listing {
	return listing{List: list, Kind: p.Kind, Tenant: p.Tenant, User: p.User, Filter: filter}
}

// paged reads a page of a list. The token that read knows, a place in the list, is
// sealed for the caller: encrypted, because the place may be the id of a job that he may
// not see, and authenticated. One that was changed, or is another listing's, is refused.
func paged[T any](s *Server, of listing, token string, read func(place string) (api.Page[T], error)) (api.Page[T], error) {
	where, err := json.Marshal(of)
	if err != nil {
		return api.Page[T]{}, fmt.Errorf("page token: %w", err)
	}
	place := ""
	if token != "" {
		sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
		if err != nil {
			return api.Page[T]{}, store.ErrPageToken
		}
		opened, _, err := s.Pages.Open(sealed, "page "+string(where))
		if err != nil {
			return api.Page[T]{}, store.ErrPageToken
		}
		place = string(opened)
	}
	page, err := read(place)
	if err == nil && page.NextPageToken != nil {
		next := base64.RawURLEncoding.EncodeToString(s.Pages.Seal([]byte(*page.NextPageToken), "page "+string(where)))
		page.NextPageToken = &next
	}
	return page, err
}
