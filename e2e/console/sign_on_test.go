package console_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/browser"
	"github.com/forgequeue/forgequeue/e2e/signon"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A real browser comes back from the provider's site signed in, on the page that it began at: cookies, policy and redirects fit. It
// is led to the door when the groups are lost, without a click.
func TestSingleSignOnInABrowser(t *testing.T) {
	t.Parallel()
	s := signon.NewSite(t, time.Hour, "readers")
	if _, err := s.Client(t, s.Tenant.Key).PutQueue(t.Context(), "mails", api.QueueRequest{}); err != nil { // a page that follows it
		t.Fatal(err)
	}
	b := browser.New(t)
	b.Do("sign in", chromedp.Navigate(s.URL+"/console/queues"), chromedp.Click(chromedp.CSS("a.main")), chromedp.WaitVisible(chromedp.CSS("#username")),
		chromedp.SendKeys(chromedp.CSS("#username"), signon.User), chromedp.SendKeys(chromedp.CSS("#password"), signon.Password), chromedp.Click(chromedp.CSS("button")))
	b.Eventually("back where it began", `location.pathname === "/console/queues" && document.querySelector("h1").textContent === "Queues"`)
	b.Eventually("no cookie for scripts", `document.cookie === ""`)
	s.Provider.SetGroups()
	b.Eventually("led to the door", `location.pathname === "/console/sign-in" && document.querySelector(".note").textContent.includes("groups")`)
	b.Silent("favicon.ico") // the provider has none
}
