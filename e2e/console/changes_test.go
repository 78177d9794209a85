package console_test

import (
	"slices"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// changes a job that is scheduled, after a payload that is no JSON, and after somebody else has changed it.
func (b *tab) changes(d *data) {
	b.Helper()
	b.open("/console/jobs/" + d.scheduled)
	b.Do("change", chromedp.Click(chromedp.CSS("#change")), chromedp.WaitVisible(chromedp.CSS("#priority")))
	save := chromedp.Click(chromedp.CSS("form.edits button.main"))
	b.Do("a payload that is no JSON", chromedp.Evaluate[chromedp.Void](`document.querySelector("#priority").value = "8"; document.querySelector("#payload").value = "{pages"`), save)
	b.Eventually("it says so at the field, with what was typed", `document.querySelector("#payload-said")?.textContent.includes("not JSON") && document.querySelector("#payload").value === "{pages" && document.querySelector("#priority").value === "8"`)
	b.look("job-change-refused")
	if _, err := d.client.PatchJob(b.Context(), d.scheduled, api.JobPatch{Priority: new(2), Tags: []string{"gpu"}}); err != nil {
		b.Fatal(err)
	}
	b.Do("a payload", chromedp.Evaluate[chromedp.Void](`document.querySelector("#payload").value = '{"pages":\n[1,2]}'`), save)
	b.Eventually("somebody else has changed the job", `document.querySelector("#refused")?.textContent.includes("was changed after this form was opened") && document.querySelector("#priority-said").textContent.includes("it is now 2") && document.querySelector("#tags").value === "gpu"`)
	b.look("job-change-newer")
	b.Do("save what was typed", save)
	b.Eventually("the job's page says that it is changed", `document.querySelector(".note")?.textContent.includes("is changed") && location.pathname === "/console/jobs/`+d.scheduled+`" && document.querySelector(".raw pre")?.textContent.includes("pages")`)
	if job := stack.Get(b.T, d.client, d.scheduled); job.Priority != 8 || string(job.Payload) != `{"pages":[1,2]}` || !slices.Equal(job.Tags, []string{"gpu"}) || job.State != api.StateScheduled {
		b.Errorf("%+v %s", job, job.Payload)
	}
	b.Silent("400", "412")
}
