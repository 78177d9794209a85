// Package console is the web console under /console: pages for people, made of the answers of the public API.
//
// It is a second front to the same API, not a second way in. A page is a few requests to the API's own handler, in
// this process, by the API's Go client and with the key of the session: authentication, scopes, limits, isolation and audit are the API's, and
// what a key may not do by curl it may not do here. The console itself stores nothing and asks core nothing.
// The page of a link that sends a signal asks without a key: the token in its address lets it in.
//
//	browser ── cookie ──▶ console ── Authorization: Bearer <key> ──▶ httpapi's handler ──▶ core
//
// This package has the table of pages, signing in, and the pages of a tenant; operator has those of the operator. visit is
// one request of a browser: its session, the client that it calls the API by, and how a page is answered. session seals
// the cookie, forms reads what was typed, view and charts turn answers into what is drawn (pure functions), pages has the
// templates and the files that a browser loads.
package console
