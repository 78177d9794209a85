// Package mcp lets agents use the API by the Model Context Protocol: each tool of its table is a request to the API, made in this process
// with the caller's own key.
//
//	agent ── POST /mcp ──> httpapi: key, rate, size ──> mcp: SDK ──> tool ──> inner ──> httpapi: POST, GET /v1/… with the same key
//
// So a tool may what its key may, is charged as its request is, and says what the API says. What a tool takes is in the API's document.
// The server is stateless: each message is one request with one answer in JSON; nothing is kept, and no stream stays open.
package mcp
