// Package sso lets people sign in to the console by a provider of OpenID Connect. The provider knows the people; the settings
// say what their groups may do; nothing is stored here but what the sealed cookie of a session holds.
//
//	browser ──▶ Begin ──▶ the provider ──▶ Finish ──▶ a session with the provider's tokens
//	each request ──▶ Check ──▶ at most once in CheckEvery: UserInfo, or the refresh token ──▶ the scopes of now, or the end
package sso
