# SPDX-License-Identifier: MIT
"""A store of S3 that checks signatures: moto, with the models of a folder.

s3_store.py FOLDER: prints assignments for a shell: the store's URL, a user's key
and secret, temporary ones with their token, and those of a user without rights.
Each file of FOLDER is an object of the bucket "models", its name the path in
FOLDER. It ends when its input ends.
"""
import json
import logging
import os
import sys
import urllib.request

# Before moto is imported: requests are not checked until the store is filled.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "100000"
import boto3                                            # noqa: E402
from moto.server import ThreadedMotoServer              # noqa: E402


def allowed(what):
    return json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": what, "Resource": "*"}]})


def main():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    url = "http://127.0.0.1:%d" % server.get_host_and_port()[1]

    def client(name):
        return boto3.client(name, endpoint_url=url, region_name="us-east-1",
                            aws_access_key_id="x", aws_secret_access_key="x")

    s3, iam, sts = client("s3"), client("iam"), client("sts")
    s3.create_bucket(Bucket="models")
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            path = os.path.join(folder, name)
            s3.upload_file(path, "models", os.path.relpath(path, sys.argv[1]))

    def user(name):
        iam.create_user(UserName=name)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        return made["AccessKeyId"], made["SecretAccessKey"]

    iam.create_policy(PolicyName="read", PolicyDocument=allowed("s3:*"))
    arn = "arn:aws:iam::123456789012:policy/read"
    key, secret = user("reader")
    iam.attach_user_policy(UserName="reader", PolicyArn=arn)
    other = user("stranger")
    iam.create_role(RoleName="role", AssumeRolePolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": []}))
    iam.attach_role_policy(RoleName="role", PolicyArn=arn)
    lent = sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/role",
                           RoleSessionName="test")["Credentials"]
    urllib.request.urlopen(urllib.request.Request(
        url + "/moto-api/reset-auth", b"0",
        {"Content-Type": "text/plain"})).close()
    print(f"url={url} key={key} secret='{secret}' other_key={other[0]} "
          f"other_secret='{other[1]}' lent_key={lent['AccessKeyId']} "
          f"lent_secret='{lent['SecretAccessKey']}' "
          f"lent_token='{lent['SessionToken']}'", flush=True)
    sys.stdin.read()
    server.stop()


main()
