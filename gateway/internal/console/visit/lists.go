package visit

import "github.com/forgequeue/forgequeue/shared/client"

// PageRequest is what a list of the API is asked for: a page of this size, as far as the page's own URL says.
func (v *Visit) PageRequest(size int) client.PageRequest {
	return client.PageRequest{Size: size, Token: v.Request.URL.Query().Get("page_token")}
}

// Deep says that it is not the first page: it does not update itself.
func (v *Visit) Deep() bool { return v.Request.URL.Query().Get("page_token") != "" }

// Older is the URL of the next page, with the filter of this one; empty where there is none.
func (v *Visit) Older(token *string) string {
	if token == nil {
		return ""
	}
	query := v.Request.URL.Query()
	query.Del("note")
	query.Set("page_token", *token)
	return v.Request.URL.Path + "?" + query.Encode()
}
