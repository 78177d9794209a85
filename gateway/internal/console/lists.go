package console

import "github.com/forgequeue/forgequeue/shared/client"

// page is what a list of the API is asked for: a page of this size, as far as the page's own URL says.
func (v *visit) page(size int) client.PageRequest {
	return client.PageRequest{Size: size, Token: v.r.URL.Query().Get("page_token")}
}

// deep says that it is not the first page: it does not update itself.
func (v *visit) deep() bool { return v.r.URL.Query().Get("page_token") != "" }

// older is the URL of the next page, with the filter of this one; empty where there is none.
func (v *visit) older(token *string) string {
	if token == nil {
		return ""
	}
	query := v.r.URL.Query()
	query.Del("note")
	query.Set("page_token", *token)
	return v.r.URL.Path + "?" + query.Encode()
}
