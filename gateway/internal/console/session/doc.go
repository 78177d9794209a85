// Package session keeps who is signed in to the console. The gateway stores nothing: a session is a cookie that is
// encrypted and authenticated (AES-256-GCM), and holds the API key, or of a person who signed in by single sign-on the provider's tokens. A link that signs in once is sealed likewise.
package session
