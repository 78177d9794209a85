// Reads {"secrets", "headers", "body"} and verifies the signature with each secret: {"accepted": [true, false]}.
const { Webhook } = require("standardwebhooks");

const { secrets, headers, body } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const accepted = secrets.map((secret) => {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
});
process.stdout.write(JSON.stringify({ accepted }));
